"""Where the fuzzing of C begins: a few good inputs for each target, made here so that no file of bytes has to be kept.

What a fuzzer found stays in FOUND, by name, for ever.
"""

from __future__ import annotations

import struct

from tests.unit.store.trees import fixed, written

NOTHING = b"\0"
FOUND: dict[str, list[bytes]] = {
    # A link whose text holds a NUL: its length and its end were not the same.
    "names": [b"\3\x98/\3\xbf\xbf((\0\7(((,\3\x8b\0\7\2\0\0**((\0\7((,\3\x8b\0\7\2\0\0**\3\3\xbf/\x89/\3\x08\x08"],
}


def elf(kind: int, segments: list[tuple[int, int, int, int, int, int, int, int]], *, entry: int = 0x1000) -> bytes:
    ident = b"\x7fELF\2\1\1".ljust(16, b"\0")
    head = struct.pack("<16sHHIQQQIHHHHHH", ident, kind, 62, 1, entry, 64, 0, 0, 64, 56, len(segments), 0, 0, 0)
    return head + b"".join(struct.pack("<IIQQQQQQ", *segment) for segment in segments)


def _programs() -> list[bytes]:
    load, stack, table, interpreter = 1, 0x6474E551, 6, 3
    text = (load, 5, 0, 0, 0, 0x1800, 0x1800, 0x1000)
    data = (load, 6, 0x1800, 0x2800, 0x2800, 0x300, 0x2000, 0x1000)
    plain = elf(3, [(table, 4, 64, 64, 64, 224, 224, 8), text, data, (stack, 6, 0, 0, 0, 0, 0, 16)])
    fixed_place = elf(2, [(load, 5, 0, 0x400000, 0x400000, 0x1000, 0x1000, 0x1000), (*data[:3], 0x402800, *data[4:])])
    wide = elf(3, [text, (load, 6, 0, 0x40000000, 0, 0x10, 0x20000, 0x200000), (interpreter, 4, 64, 0, 0, 16, 16, 1)])
    files = [file.ljust(0x1C00, b"x") for file in (plain, fixed_place, wide)]
    header = plain[:64]
    return [bytes([how, 0]) + header + file for how in (0, 2, 7) for file in files]


def _stacks() -> list[bytes]:
    words = b"PATH=/bin\0A=1\0three\0two\0zero\0/bin/sh\0-x\0/tmp/script\0"
    return [
        bytes([argc, envc, prefix, aux]) + words
        for argc, envc, prefix, aux in ((3, 2, 2, 0), (0, 0, 0, 8), (1, 2, 7, 4))
    ]


def _manifests() -> list[bytes]:
    good = written(fixed())
    return [bytes([how]) + good for how in (0, 1, 0x43)]


def _messages() -> list[bytes]:
    loopback, outside = (struct.pack("<H2s4s8x", 2, b"\x1f\x90", bytes(ip)) for ip in ((127, 0, 0, 1), (8, 8, 8, 8)))
    six = struct.pack("<H2sI16sI", 10, b"\x1f\x90", 0, bytes(15) + b"\1", 0)
    made = [bytes([2, 8, 3, 1, len(to), 0, 0, 0, 0]) + to for to in (loopback, outside, six)]
    made += [bytes([2, 7, 3, 1, 1, 0, 1, len(loopback), 0]) + loopback]
    header = struct.pack("<QI4xQQQQI4x", 0, 0, 4096, 1, 0, 0, 0)
    return made + [bytes([3, call, 3, 1, 2, 0, 0, 0, 0]) + header * 2 for call in (3, 4, 5, 6)]


def _signals() -> list[bytes]:
    action = struct.pack("<QQQQ", 0x401000, 0x4000000, 0x402000, 0)
    thunk = struct.pack("<QQQQ", 0x567F00000010, 0x14000000, 0, 0)
    return [
        bytes([0, 10, 0]) + act + b"\0" + mask + b"\0" + bytes(1024) + bytes(64) + thunk
        for act in (action, thunk)
        for mask in (bytes(8), b"\xff" * 8)
    ]


def _names() -> list[bytes]:
    names = [b"/usr/bin/env", b"/tmp/file", b"/deep/x", b"/etc", b"/usr/bin/" + b"x" * 255, b"/usr/bin/..", b"/tmp/",
             b"/usr/none/../x", b"/usr/bin/../."]
    made = [b"\1\0" + name + b"\0" for name in names]
    return made + [b"\1\0" + name + b"\0" + bytes([1, 1]) + b"3" for name in (b"env", b"sub/env", b"..")]


def _init() -> list[bytes]:
    texts = b"/bin/sh\0sh\0-c\0true\0A=1\0B=2\0"
    plan = struct.pack("<IIQIIQQQQIIIIIIIIII", 0x324E4C50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 472, 3, 480, 2, 491, 1, 0)
    plan = plan.ljust(472, b"\1") + texts
    start = (
        b"\1\1"
        + struct.pack("<QII", len(texts), 3, 2)
        + b"\1"
        + struct.pack("<QII5i", 36, 1, 1, 5, 6, 7, 8, 9).ljust(40, b"\0")
    )
    return [b"\0" + plan, b"\2" + plan, start + texts]


def _gate() -> list[bytes]:
    """Requests in a slot: a state, a number, six arguments, a thread, the name's length and the name."""
    made = []
    asked = ((9, 262, b"/usr/bin", 8), (13, 332, b"sub/inner", 9), (15, 89, b"", 0), (9, 21, b"/", 300))
    for state, nr, name, size in asked:
        words = struct.pack("<II9Q", state, 0, nr, 1, 2, 3, 4, 5, 6, 77, size)
        made.append((words + name).ljust(1024, b"\0") + bytes(range(32)))
    return made


def corpus(target: str) -> list[bytes]:
    made = {
        "elf": _programs,
        "stack": _stacks,
        "manifest": _manifests,
        "messages": _messages,
        "signals": _signals,
        "names": _names,
        "init": _init,
        "gate": _gate,
    }
    return [NOTHING, *made[target](), *FOUND.get(target, [])]


TARGETS = ("elf", "stack", "manifest", "messages", "signals", "names", "init", "gate")
