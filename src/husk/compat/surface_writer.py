"""compat: a surface as a TOML file, which `read_surface` reads again."""

from __future__ import annotations

import json
from collections.abc import Sequence

from husk.abi.registry.rules import ArgTest
from husk.abi.registry.signatures import arguments
from husk.compat.surface import (
    ALL_32,
    ERRNO_NAMES,
    FORMAT,
    VERBS,
    Claim,
    Surface,
    choice_mask,
    mask_of,
    rows_by_name,
    spelled,
    words_of,
)

_WORDS = {kind: word for word, kind in VERBS.items()}  # the kind of an ArgTest -> the file's word


def write_surface(surface: Surface) -> str:
    """The TOML file of a surface; `read_surface` reads the same surface from it."""
    lines = [
        f"format = {FORMAT}",
        f"title = {_quoted(surface.title)}",
        f"version = {_quoted(surface.version)}",
        f"date = {_quoted(surface.date)}",
        f"source = {_quoted(surface.source)}",
        f"measured = {'true' if surface.measured else 'false'}",
        f"default = {{ {', '.join(_verdict(surface.default, surface.default_errno))} }}",
        "",
        "[calls]",
    ]
    plain = [claim for claim in surface.claims.values() if _is_plain(claim)]
    lines += [f'{claim.call} = "{claim.support}"' for claim in sorted(plain, key=lambda claim: claim.call)]
    for claim in sorted(surface.claims.values(), key=lambda claim: claim.call):
        if not _is_plain(claim):
            lines += _claim_lines(claim)
    for path in surface.paths:
        lines += ["", "[[paths]]", f"path = {_quoted(path.path)}", *_verdict(path.support, path.errno)]
        lines += [f"text = {_quoted(path.text)}"] if path.text else []
    return "\n".join(lines) + "\n"


def _is_plain(claim: Claim) -> bool:
    return not (claim.errno or claim.text or claim.source or claim.notes)


def _claim_lines(claim: Claim) -> list[str]:
    lines = ["", f"[calls.{claim.call}]", *_verdict(claim.support, claim.errno)]
    lines += [f"{key} = {_quoted(text)}" for key, text in (("text", claim.text), ("source", claim.source)) if text]
    kinds = arguments(rows_by_name()[claim.call])
    for note in claim.notes:
        lines += ["", f"[[calls.{claim.call}.when]]"]
        for index in dict.fromkeys(test.index for test in note.tests):
            name, kind = kinds[index]
            lines.append(f"{name} = {_condition(kind, [test for test in note.tests if test.index == index])}")
        lines += _verdict(note.support, note.errno)
        word = "text" if note.tests else "about"
        lines += [f"{key} = {_quoted(text)}" for key, text in ((word, note.text), ("source", note.source)) if text]
    return lines


def _verdict(support: str, errno: int) -> list[str]:
    return [f'support = "{support}"', *([f'errno = "{ERRNO_NAMES[errno]}"'] if errno else [])]


def _condition(kind: str, tests: Sequence[ArgTest]) -> str:
    tables = []
    for test in tests:
        values = test.names.values()
        # A value under a mask of its own is a pattern of bits, so a name for it would mislead.
        words = [spelled(kind, value) if test.mask in (ALL_32, mask_of(kind)) else "" for value in values]
        known = words_of(kind)
        shown = [_quoted(word) if word in known else _number(value) for word, value in zip(words, values, strict=True)]
        usual = choice_mask(kind, words) if test.kind == "in" else ALL_32
        if test.kind == "in" and not test.wide and test.mask == usual and len(tests) == 1:
            return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
        parts = [f"{_WORDS[test.kind]} = [{', '.join(shown)}]"]
        parts += ["wide = true"] if test.wide else [f"mask = {test.mask:#x}"] if test.mask != usual else []
        tables.append(f"{{ {', '.join(parts)} }}")
    return tables[0] if len(tables) == 1 else f"[{', '.join(tables)}]"


def _number(value: int) -> str:
    return str(value) if value < 4096 else hex(value)


def _quoted(text: str) -> str:
    """A TOML basic string, which a terminal can show: JSON's escapes are a part of TOML's."""
    return "".join(one if one.isprintable() else _escaped(one) for one in json.dumps(text, ensure_ascii=False))


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
