"""skills: a program that parses shell and JavaScript with tree-sitter. It runs in a process of its own, never in husk.

The parser is C, and its input is a stranger's: so it has no descriptors but two pipes, limits on memory and processor
time, and a seccomp filter that leaves it reading, writing and memory. A request is a line `LANGUAGE SIZE` and that many
bytes of text; the answer is one line of JSON, as `syntax_parser` documents it. It imports nothing of husk, and little
else: `json`, `typing` and the packages' own __init__ would be most of its start.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
from _json import encode_basestring_ascii as quoted  # type: ignore[import-not-found, unused-ignore]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MEMORY, SECONDS = 1 << 30, 20
MOST_FACTS = 50_000  # of a kind, for each text
OPEN, CLOSE = "\ue000", "\ue001"  # around the name of a variable in a word; with nothing between: not known
# read write mmap mprotect munmap brk rt_sigreturn mremap madvise exit futex exit_group clock_gettime getrandom
CALLS = (0, 1, 9, 10, 11, 12, 15, 25, 28, 60, 202, 228, 231, 318)
X86_64 = 0xC000003E


def confine() -> None:
    """No other call from here on: each is answered with EPERM."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if os.uname().machine != "x86_64":
        return
    load, jump, answer = 0x20, 0x15, 0x06
    allow, refuse, kill = 0x7FFF0000, 0x00050001, 0x80000000
    code = [(load, 0, 0, 4), (jump, 1, 0, X86_64), (answer, 0, 0, kill), (load, 0, 0, 0)]
    code += [(jump, len(CALLS) - number, 0, call) for number, call in enumerate(CALLS)]
    code += [(answer, 0, 0, refuse), (answer, 0, 0, allow)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(text)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
    if prctl(38, 1, None, 0, 0) or prctl(22, 2, ctypes.addressof(program), 0, 0):  # no_new_privs, then the filter
        raise OSError(ctypes.get_errno(), "prctl")


def walk(root: Any) -> Iterator[Any]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def text_of(node: Any) -> str:
    return str(node.text.decode("utf-8", "replace"))


def line_of(node: Any) -> int:
    return int(node.start_point[0]) + 1


# -- shell ------------------------------------------------------------------------------------------------------------


def word_of(node: Any, depth: int = 0) -> str:
    kind = node.type
    if kind in ("simple_expansion", "expansion"):
        name = next(
            (text_of(part) for part in walk(node) if part.type in ("variable_name", "special_variable_name")), ""
        )
        return f"{OPEN}{name}{CLOSE}"
    if kind in ("command_substitution", "process_substitution", "arithmetic_expansion"):
        return f"{OPEN}{CLOSE}"
    text = text_of(node)
    if kind == "raw_string":
        return text[1:-1]
    if kind == "ansi_c_string":
        return text[2:-1]
    if kind in ("string", "concatenation", "command_name", "translated_string") and depth < 50:
        # The spaces between the parts of a string are no nodes.
        data, start, out = node.text, node.start_byte, []
        position = 1 if kind == "string" else 0
        end = len(data) - 1 if kind == "string" else len(data)
        for part in node.children:
            if part.type == '"':
                continue
            if part.start_byte - start > position:
                out.append(data[position : part.start_byte - start].decode("utf-8", "replace"))
            out.append(text_of(part) if part.type == "string_content" else word_of(part, depth + 1))
            position = part.end_byte - start
        if position < end:
            out.append(data[position:end].decode("utf-8", "replace"))
        return "".join(out)
    if "\\" in text:
        text = text.replace("\\\n", "").replace("\\", "")
    return text


def shell(root: Any) -> dict[str, Any]:
    commands: list[Any] = []
    found: dict[str, Any] = {"commands": commands, "assigns": [], "functions": [], "comments": [], "variables": []}
    found |= {"loops": [], "redirects": [], "heredocs": [], "defaults": [], "arrays": []}
    bodies: list[tuple[int, int, str]] = []  # start, end, name of each function
    numbers: dict[int, int] = {}  # a command's first byte: its number
    for node in walk(root):
        kind = node.type
        if kind == "function_definition":
            name = text_of(node.child_by_field_name("name") or node)
            found["functions"].append(name)
            bodies.append((node.start_byte, node.end_byte, name))
        elif kind == "command":
            words = [word_of(node.child_by_field_name("name"))] if node.child_by_field_name("name") else []
            words += [word_of(part) for part in node.children_by_field_name("argument")]
            while bodies and bodies[-1][1] <= node.start_byte:
                bodies.pop()
            if words:
                numbers[node.start_byte] = len(commands)
                commands.append([line_of(node), bodies[-1][2] if bodies else "", words])
        elif kind == "variable_assignment":
            value = node.child_by_field_name("value")
            name = text_of(node.child_by_field_name("name") or node)
            parts = [value] if value is not None and value.type != "array" else value.named_children if value else []
            if value is not None:
                found["assigns"].append([line_of(node), name, [word_of(part) for part in parts]])
                if value.type == "array" and "+=" not in text_of(node)[: len(name) + 2]:
                    found["arrays"].append([line_of(node), name, [word_of(part) for part in parts]])
            else:
                found["assigns"].append([line_of(node), name, [""]])
        elif kind == "declaration_command":
            for part in node.named_children:
                if part.type == "variable_name" and text_of(node).split(" ")[0] in ("local", "declare", "typeset"):
                    found["assigns"].append([line_of(node), text_of(part), [""]])
        elif kind == "for_statement":
            variable = node.child_by_field_name("variable")
            values = [word_of(part) for part in node.children_by_field_name("value")]
            if variable is not None:
                found["loops"].append([line_of(node), text_of(variable), values])
        elif kind == "comment":
            found["comments"].append([line_of(node), text_of(node)])
        elif kind == "file_redirect":
            target = node.child_by_field_name("destination")
            sign = next((text_of(part) for part in node.children if not part.is_named), "")
            if target is not None and ">" in sign and "&" not in sign:
                found["redirects"].append([line_of(node), word_of(target)])
        elif kind in ("simple_expansion", "expansion"):
            name = next((text_of(part) for part in walk(node) if part.type == "variable_name"), "")
            sign = next((text_of(part) for part in node.children if not part.is_named and ":" in text_of(part)), "")
            sign = sign or next((part.type for part in node.children if part.type in ("-", "=", "?", "+")), "")
            if name:
                found["variables"].append([line_of(node), name, sign])
            if name and sign.strip(":") in ("-", "=") and len(node.named_children) > 1:
                found["defaults"].append([line_of(node), name, [word_of(node.named_children[1])]])
        elif kind == "heredoc_redirect":
            body = next((part for part in node.children if part.type == "heredoc_body"), None)
            owner = node.parent.child_by_field_name("body") if node.parent is not None else None
            if body is not None:
                number = numbers.get(owner.start_byte, -1) if owner is not None else -1
                found["heredocs"].append([line_of(body), number, text_of(body)])
    return found


# -- JavaScript and TypeScript ----------------------------------------------------------------------------------------

WRAPPERS = (
    "await_expression",
    "parenthesized_expression",
    "as_expression",
    "non_null_expression",
    "satisfies_expression",
)


def value_of(node: Any, depth: int = 0) -> Any:
    """{"text"} for a text, {"items"} for a list, and for all the names that stand in it."""
    while node is not None and node.type in WRAPPERS and node.named_children and depth < 50:
        node, depth = node.named_children[0], depth + 1
    if node is None:
        return {}
    if node.type in ("string", "template_string"):
        return {"text": js_text(node), "names": names_in(node)}
    if node.type == "array" and depth < 50:
        return {"items": [value_of(part, depth + 1) for part in node.named_children[:200]], "names": names_in(node)}
    if node.type == "binary_expression" and depth < 50:
        sides = [value_of(node.child_by_field_name(side), depth + 1).get("text") for side in ("left", "right")]
        if any(side is not None for side in sides):
            return {"text": "".join(f"{OPEN}{CLOSE}" if s is None else s for s in sides), "names": names_in(node)}
    return {"names": names_in(node)}


def js_text(node: Any) -> str:
    out = []
    for part in node.named_children:
        if part.type == "string_fragment":
            out.append(text_of(part))
        elif part.type == "escape_sequence":
            out.append({"\\n": "\n", "\\t": "\t"}.get(text_of(part), text_of(part)[1:]))
        elif part.type == "template_substitution":
            inner = part.named_children[0] if part.named_children else None
            name = text_of(inner) if inner is not None and inner.type == "identifier" else ""
            out.append(f"{OPEN}{name}{CLOSE}")
    return "".join(out)


def names_in(node: Any) -> list[str]:
    kinds = ("identifier", "property_identifier", "shorthand_property_identifier")
    found: dict[str, None] = {}
    for number, part in enumerate(walk(node)):
        if part.type in kinds:
            found[text_of(part)] = None
        if number > 2000 or len(found) > 100:
            break
    return list(found)


def javascript(root: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"imports": [], "calls": [], "assigns": [], "strings": [], "comments": [], "env": []}
    found |= {"functions": []}
    for node in walk(root):
        kind = node.type
        if kind in ("import_statement", "export_statement"):
            source = node.child_by_field_name("source")
            if source is not None and not text_of(node).startswith("import type"):
                clause = next((part for part in node.children if part.type == "import_clause"), None)
                found["imports"].append([line_of(node), js_text(source), names_in(clause) if clause else []])
        elif kind in ("call_expression", "new_expression"):
            callee = node.child_by_field_name("function") or node.child_by_field_name("constructor")
            given = node.child_by_field_name("arguments")
            if callee is None or given is None:
                continue
            name = text_of(callee)[-200:]
            parts = [given] if given.type == "template_string" else given.named_children
            values = [value_of(part) for part in parts if part.type != "comment"]
            found["calls"].append([line_of(node), name, values, js_owner(node)])
            if name in ("require", "import") and values and "text" in values[0]:
                found["imports"].append([line_of(node), values[0]["text"], []])
        elif kind in (
            "variable_declarator",
            "public_field_definition",
            "assignment_expression",
            "required_parameter",
            "pair",
        ):
            js_assign(node, found)
        elif kind == "for_in_statement":
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is not None and right is not None:
                found["assigns"].append([line_of(node), names_in(left), value_of(right)])
        elif kind in ("function_declaration", "method_definition", "arrow_function", "function_expression"):
            js_function(node, found)
        elif kind in ("string", "template_string"):
            if "://" in (text := js_text(node)):
                found["strings"].append([line_of(node), text, js_context(node)])
        elif kind == "comment":
            found["comments"].append([line_of(node), text_of(node)])
        elif kind == "member_expression" and text_of(node.child_by_field_name("object") or node) == "process.env":
            found["env"].append(
                [line_of(node), text_of(node.child_by_field_name("property") or node), js_default(node)]
            )
        elif kind == "subscript_expression" and text_of(node.child_by_field_name("object") or node) == "process.env":
            index = node.child_by_field_name("index")
            if index is not None and index.type == "string":
                found["env"].append([line_of(node), js_text(index), js_default(node)])
    return found


def js_assign(node: Any, found: dict[str, Any]) -> None:
    target = node.child_by_field_name("name") or node.child_by_field_name("left") or node.child_by_field_name("key")
    target = target or node.child_by_field_name("pattern")
    value = node.child_by_field_name("value") or node.child_by_field_name("right")
    if target is None or value is None:
        return
    if target.type == "object_pattern" and text_of(value) == "process.env":
        for part in walk(target):
            if part.type in ("shorthand_property_identifier_pattern", "property_identifier"):
                found["env"].append([line_of(node), text_of(part), part.parent.type == "object_assignment_pattern"])
        return
    names = [js_text(target)] if target.type == "string" else names_in(target)[-1:]
    if target.type in ("object_pattern", "array_pattern"):
        names = [
            text_of(part)
            for part in walk(target)
            if part.type.endswith("identifier_pattern") or part.type == "identifier"
        ]
    found["assigns"].append([line_of(node), names, value_of(value)])


def js_function(node: Any, found: dict[str, Any]) -> None:
    name = node.child_by_field_name("name")
    if name is None and node.parent is not None:
        name = node.parent.child_by_field_name("name") or node.parent.child_by_field_name("key")
    given = node.child_by_field_name("parameters")
    single = node.child_by_field_name("parameter")
    parameters = [names_in(part)[:1] for part in given.named_children] if given is not None else []
    if single is not None:
        parameters = [[text_of(single)]]
    if name is not None:
        found["functions"].append([text_of(name), [part[0] if part else "" for part in parameters]])


def js_default(node: Any) -> bool:
    """Does another value stand in for a variable that is not set?"""
    parent = node.parent
    return (
        parent is not None
        and parent.type == "binary_expression"
        and text_of(parent).find("|") + text_of(parent).find("?") > -2
    )


def js_owner(node: Any) -> str:
    """The function that a call stands in."""
    for _ in range(200):
        node = node.parent
        if node is None:
            return ""
        if node.type in ("function_declaration", "method_definition", "arrow_function", "function_expression"):
            name = node.child_by_field_name("name")
            if name is None and node.parent is not None and node.parent.type in ("variable_declarator", "pair"):
                name = node.parent.child_by_field_name("name") or node.parent.child_by_field_name("key")
            if name is not None:
                return text_of(name)
    return ""


def js_context(node: Any) -> str:
    """The nearest call that a text is an argument of, or the key that it is the value of."""
    for _ in range(6):
        node = node.parent
        if node is None:
            return ""
        if node.type in ("call_expression", "new_expression"):
            return text_of(node.child_by_field_name("function") or node.child_by_field_name("constructor") or node)[
                -200:
            ]
        if node.type == "pair":
            return "key " + text_of(node.child_by_field_name("key") or node)[:100]
        if node.type == "variable_declarator":
            return "name " + text_of(node.child_by_field_name("name") or node)[:100]
    return ""


def as_json(value: Any) -> str:
    if isinstance(value, str):
        return str(quoted(value))
    if isinstance(value, dict):
        return "{" + ",".join(f"{quoted(key)}:{as_json(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(as_json, value)) + "]"
    return (
        {True: "true", False: "false", None: "null"}[value] if value is None or value in (True, False) else str(value)
    )


def library(name: str) -> Any:
    """The C module of a package. The package's own __init__ reads files and imports much: an empty one stands in."""
    package = type(sys)(name)
    package.__path__ = [f"{folder}/{name}" for folder in sys.path]
    sys.modules[name] = package
    return __import__(f"{name}._binding", fromlist=["_binding"])


def main() -> None:
    sys.path += sys.argv[1:]
    tree_sitter = library("tree_sitter")
    grammars = library("tree_sitter_typescript")
    bash = tree_sitter.Parser(tree_sitter.Language(library("tree_sitter_bash").language()))
    typescript = tree_sitter.Parser(tree_sitter.Language(grammars.language_typescript()))
    tsx = tree_sitter.Parser(tree_sitter.Language(grammars.language_tsx()))
    readers = {b"shell": (bash, shell), b"javascript": (tsx, javascript), b"typescript": (typescript, javascript)}
    os.closerange(3, 1024)
    confine()
    for request in sys.stdin.buffer:
        language, size = request.split()
        parser, read = readers[language]
        tree = parser.parse(sys.stdin.buffer.read(int(size)))
        answer = {key: facts[:MOST_FACTS] for key, facts in read(tree.root_node).items()}
        sys.stdout.buffer.write(as_json(answer | {"errors": tree.root_node.has_error}).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
