"""Turns a static ELF program into an "actually portable executable": one file that starts with a shell script.

Usage: make_ape.py ELF APE. The file begins with MZqFpD=' so that it is a DOS header, a shell script and, by the octal
escapes of its first printf, an ELF header at once. A kernel without support sees no known format and a shell runs the
script, which writes the header in front of a copy of the rest and executes that. husk reads the header from the script.
"""

from __future__ import annotations

import os
import struct
import sys

PAD = 8192  # the ELF file follows the script, a whole number of pages later, so offsets stay congruent to addresses


def convert(elf: bytes) -> bytes:
    header = bytearray(elf[:64])
    (phoff,) = struct.unpack_from("<Q", elf, 32)
    phentsize, phnum = struct.unpack_from("<HH", elf, 54)
    body = bytearray(elf)
    for index in range(phnum):
        at = phoff + index * phentsize + 8
        (offset,) = struct.unpack_from("<Q", body, at)
        struct.pack_into("<Q", body, at, offset + PAD)
    struct.pack_into("<Q", header, 32, phoff + PAD)
    struct.pack_into("<Q", header, 40, 0)  # no section headers
    struct.pack_into("<HHH", header, 58, 0, 0, 0)
    octal = "".join(chr(byte) if 65 <= byte <= 90 else f"\\{byte:03o}" for byte in header)
    script = (
        "MZqFpD='\n"
        "'\n"
        f"header() {{ printf '{octal}'; }}\n"
        "t=$(mktemp) || exit 125\n"
        '{ header; tail -c +65 "$0"; } >"$t" && chmod 755 "$t"\n'
        '"$t" "$@"; status=$?\n'
        'rm -f "$t"\n'
        "exit $status\n"
    ).encode("latin-1")
    assert len(script) < PAD
    return script.ljust(PAD, b"\n") + bytes(body)


def main() -> None:
    with open(sys.argv[1], "rb") as source:
        data = convert(source.read())
    with open(sys.argv[2], "wb") as target:
        target.write(data)
    os.chmod(sys.argv[2], 0o755)


if __name__ == "__main__":
    main()
