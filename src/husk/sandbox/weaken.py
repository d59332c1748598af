"""sandbox: the walls that a caller may choose to do without, and what the box then lacks."""

from __future__ import annotations

from husk.sandbox.errors import UsageError

# name: what the box then lacks. Landlock is not among them: a placeholder directory is a host directory, `..` from it
# leads into the host, and a guest that learned its cookie could then execute any host program it can name.
NAMES = {
    "namespaces": "a name or a process id that slips past the filter meets Landlock alone; no System V IPC",
    "signals": "no guest may send a signal, not even to its own processes",
    "user": "started by root, the guest keeps root's user id on the host, without any capability",
}


def check(name: str) -> str:
    if name == "landlock":
        raise UsageError(
            "not possible; `..` from a guest's working directory leads into the host, and nothing but Landlock keeps a "
            "guest from executing what it finds there.",
            option="weaken",
            value=name,
        )
    if name not in NAMES:
        raise UsageError(f"write one of {', '.join(NAMES)}.", option="weaken", value=name)
    return name
