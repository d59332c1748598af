"""kernel: which host name a guest is looking up, when the box has no resolver and the look-up is refused.

The refused call only names the resolver. C libraries have the query on the stack by then, so it is searched for there.
This is for the report to a person only: no decision rests on it, and where nothing is found the report does without.
Rejected: a resolver in every box. It would cost each start a socket and a thread, for the few that ask in vain.
"""

from __future__ import annotations

from husk.abi.registry import number
from husk.kernel.net.resolver import INTERNET, read_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.call import Call

SENDTO = number("sendto")
PAGE, PAGES = 4096, 16
FLAGS = (b"\1\0", b"\1\x20")  # recursion desired; with or without "authentic data"
COUNTS = b"\0\1\0\0\0\0\0"  # one question, no answers; at most 255 additional records
MOST_QUERY = 512
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def asked_name(call: Call) -> str:
    """Empty: it is not known."""
    try:
        if call.nr == SENDTO:
            return _name_in(call.raw.read(call.args[1], min(call.args[2], MOST_QUERY)))
        return _name_in(_stack(call))
    except (OSError, ValueError, IndexError):
        return ""


def _stack(call: Call) -> bytes:
    """The newest part of the calling thread's stack."""
    with open(f"/proc/{call.tid}/syscall", "rb") as file:
        pointer = int(file.read().split()[-2], 16)
    found, at = b"", pointer
    for _ in range(PAGES):
        end = (at // PAGE + 1) * PAGE
        try:
            found += call.raw.read(at, end - at)
        except OSError:
            break  # the end of the stack
        at = end
    return found


def _name_in(data: bytes) -> str:
    """The name of the first query in `data`."""
    at = -1
    while (at := data.find(COUNTS, at + 1)) >= 0:
        if at < 4 or data[at - 2 : at] not in FLAGS:
            continue
        try:
            name, end = read_name(data, at + 8)
        except (ValueError, IndexError):
            continue
        if int.from_bytes(data[end + 2 : end + 4], "big") == INTERNET and name and LETTERS.issuperset(name):
            return name
    return ""
