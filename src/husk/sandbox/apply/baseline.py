"""sandbox: the baseline of a mount: the stat of each host file when a box first changed it. `husk apply` needs it.

An entry is the length of the name (2 bytes), the name, and 13 numbers of 8 bytes, as the C core's stat gives them.
"""

from __future__ import annotations

import struct

from husk.native._core import HostStat

TYPE_CHECKING = False
if TYPE_CHECKING:
    Baseline = dict[bytes, HostStat]

MAGIC = b"husk seen 1\n"
NUMBERS = struct.Struct("<13Q")
LOW = (1 << 64) - 1


def pack(baseline: Baseline) -> bytes:
    parts = [MAGIC]
    for name, info in sorted(baseline.items()):
        parts.append(len(name).to_bytes(2, "little") + name + NUMBERS.pack(*(number & LOW for number in info)))
    return b"".join(parts)


def unpack(data: bytes) -> Baseline:
    if not data.startswith(MAGIC):
        raise ValueError
    found: Baseline = {}
    at = len(MAGIC)
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "little")
        numbers = [number - (1 << 64) if number >> 63 else number for number in NUMBERS.unpack_from(data, end)]
        found[data[at + 2 : end]] = HostStat(numbers)
        at = end + NUMBERS.size
    return found
