"""compat: the least seccomp profile that covers what traces saw, for the runtimes people already have.

Here: from censuses to rules, and rules as Docker's JSON, an OCI runtime's, a systemd unit's lines, or a runtime file of
husk's. Not here: how a trace is taken, and reading profiles of others (runtimes/seccomp_import.py).

What is in a profile, and why:

- every call that was seen, unless husk refused it every time. Those get the errno they got: the program has shown that
  it copes.
- LIBC, below: calls that depend on the C library's version, on timing, on memory and on the host's clock rather than
  on the program, so that one trace does not show them all; and what a container runtime does between the filter and
  the program.
- a rule by argument where an argument opens a whole door: socket families, new namespaces, personalities. Commands of
  ioctl are not restricted: they differ by terminal and by library, and a profile that breaks in a pipe is of no use.
- the rest gets ENOSYS, not EPERM: a libc newer than the traced one tries newer calls first and falls back only when
  told that they do not exist.
"""

from __future__ import annotations

import errno as errno_module
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from husk.abi.numbers import CLONE_NAMESPACES
from husk.abi.registry import number
from husk.abi.registry.flags import FLAGS
from husk.abi.registry.rules import ArgTest
from husk.abi.registry.signatures import arguments
from husk.compat.census import Census
from husk.compat.surface import FULL, MISSING, Claim, Note, Surface, rows_by_name, spelled

FORMATS = ("docker", "oci", "systemd", "husk")
DEFAULT_ERRNO = errno_module.ENOSYS

# Calls that a trace may miss although the next run makes them.
LIBC = {
    "starting a program": (
        "execve brk mmap munmap mprotect arch_prctl set_tid_address set_robust_list rseq prlimit64 getrandom openat"
        " read pread64 close fstat newfstatat access readlink uname lseek"
    ),
    "ending, and saying why": "exit exit_group write writev rt_sigprocmask gettid getpid tgkill",
    "memory: growing and giving back depend on sizes and threads": "mremap madvise",
    "locks and signals: whether threads meet is chance": (
        "futex sched_yield rt_sigaction rt_sigreturn restart_syscall sigaltstack"
    ),
    "time: where the host has no vDSO clock": "clock_gettime gettimeofday time getcpu clock_nanosleep nanosleep",
    # Tried with runc 1.1.5, for a user other than root and without no_new_privs, where the filter comes earliest.
    "runc, between filter and program": (
        "capget capset chdir epoll_ctl epoll_pwait faccessat faccessat2 fchown fcntl fstatfs getcwd getdents64 getppid"
        " prctl setgid setgroups setuid"
    ),
}

NEW_NAMESPACES = sum(CLONE_NAMESPACES.values())
SOCKETS = ("socket", "socketpair")
EXACT = {"socket": 0, "socketpair": 0, "personality": 0}  # call -> the argument whose values are listed
PERSONALITY_QUERY = 0xFFFFFFFF


@dataclass(frozen=True)
class Allowed:
    """A call that passes. `values`: only with one of these in argument `index`; `without`: only with none of these
    bits in argument 0."""

    call: str
    index: int = 0
    values: tuple[int, ...] = ()
    without: int = 0


@dataclass
class Profile:
    """What passes, what gets an errno of its own, and where it all comes from."""

    allowed: list[Allowed] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)  # call -> errno, seen in a trace
    added: list[str] = field(default_factory=list)  # allowed, though no trace saw them
    commands: list[list[str]] = field(default_factory=list)


def profile_from(censuses: Iterable[Census]) -> Profile:
    """The profile for all of these runs together."""
    seen: dict[str, list[dict[int, int]]] = {}
    refusals: dict[str, int] = {}
    profile = Profile()
    for census in censuses:
        profile.commands.append(list(census.command))
        for asked in census.calls:
            if asked.call not in rows_by_name():
                continue  # a number without a name, which no profile can spell
            if asked.way in ("refused", "judged"):
                refusals.setdefault(asked.call, _errno(asked.errors))
            else:
                seen.setdefault(asked.call, []).append(asked.values)
    needed = {call for calls in LIBC.values() for call in calls.split()}
    profile.added = sorted(needed - seen.keys())
    profile.refused = {call: refusals[call] for call in sorted(refusals) if call not in seen and call not in needed}
    profile.allowed = [_allowed(call, seen.get(call, [])) for call in sorted(needed | seen.keys())]
    return profile


def _errno(errors: dict[str, int]) -> int:
    """The errno a refused call got most often."""
    name = max(errors, key=lambda one: errors[one], default="")
    found: int = getattr(errno_module, name, DEFAULT_ERRNO)
    return found


def _allowed(call: str, values: list[dict[int, int]]) -> Allowed:
    """The rule for a call that was seen with these argument values."""
    if call in EXACT and values and all(EXACT[call] in one for one in values):
        listed = {one[EXACT[call]] & 0xFFFFFFFF for one in values}
        if call == "personality":
            listed.add(PERSONALITY_QUERY)  # asking changes nothing
        return Allowed(call, EXACT[call], tuple(sorted(listed)))
    if call in ("clone", "unshare") and all(0 in one for one in values):
        used = 0
        for one in values:
            used |= one[0]
        return Allowed(call, without=NEW_NAMESPACES & ~used)
    return Allowed(call)


# -- as others read it -------------------------------------------------------------------------------------------------
def docker_json(profile: Profile) -> dict[str, Any]:
    """For `docker run --security-opt seccomp=FILE`, and for Kubernetes' Localhost profiles."""
    archs = [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []}]
    return {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": DEFAULT_ERRNO, "archMap": archs} | _rules(profile)


def oci_json(profile: Profile) -> dict[str, Any]:
    """The object `linux.seccomp` of an OCI config.json."""
    head = {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": DEFAULT_ERRNO, "architectures": ["SCMP_ARCH_X86_64"]}
    return head | _rules(profile)


def _rules(profile: Profile) -> dict[str, Any]:
    plain = [one.call for one in profile.allowed if not one.values and not one.without]
    rules: list[dict[str, Any]] = [{"names": plain, "action": "SCMP_ACT_ALLOW"}]
    for one in profile.allowed:
        # One rule for each value: conditions inside a rule must all hold.
        rules += [_rule(one.call, one.index, "SCMP_CMP_EQ", value) for value in one.values]
        if one.without:
            rules.append(_rule(one.call, 0, "SCMP_CMP_MASKED_EQ", one.without))
    for errno in sorted({errno for errno in profile.refused.values() if errno != DEFAULT_ERRNO}):
        names = [call for call, given in profile.refused.items() if given == errno]
        rules.append({"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": errno})
    return {"syscalls": rules}


def _rule(call: str, index: int, op: str, value: int) -> dict[str, Any]:
    args = [{"index": index, "value": value, "valueTwo": 0, "op": op}]
    return {"names": [call], "action": "SCMP_ACT_ALLOW", "args": args}


def systemd_lines(profile: Profile) -> list[str]:
    """Lines for the [Service] section of a unit. The filter knows names only; its other settings say the rest."""
    lines = ["[Service]", "SystemCallArchitectures=native", "SystemCallErrorNumber=ENOSYS"]
    words: list[str] = []
    for one in profile.allowed:
        if sum(map(len, words)) + len(words) + len(one.call) > 80:
            lines.append(f"SystemCallFilter={' '.join(words)}")
            words = []
        words.append(one.call)
    lines.append(f"SystemCallFilter={' '.join(words)}")
    rules = {one.call: one for one in profile.allowed}
    families = {value for call in SOCKETS if call in rules for value in rules[call].values}
    if all(rules[call].values for call in SOCKETS if call in rules):
        names = sorted(FLAGS["AF_*"].spell(value) for value in families)
        lines.append(f"RestrictAddressFamilies={' '.join(names) or 'none'}")
    if all(rules[call].without == NEW_NAMESPACES for call in ("clone", "unshare") if call in rules):
        lines.append("RestrictNamespaces=yes")
    if "personality" not in rules:
        lines.append("LockPersonality=yes")
    return [*lines, "NoNewPrivileges=yes"]


def as_surface(profile: Profile, name: str, date: str) -> Surface:
    """A runtime file: `husk run --as FILE` then gives a program just this."""
    claims = {one.call: _claim(one) for one in profile.allowed}
    for call, errno in profile.refused.items():
        claims[call] = Claim(call, MISSING, errno, "refused while it was traced")
    source = "; ".join(" ".join(command) for command in profile.commands)
    return Surface(name, f"what was seen of {source}"[:200], "traced", date, "husk seccomp from", False, MISSING,
                   DEFAULT_ERRNO, claims)  # fmt: skip


def _claim(one: Allowed) -> Claim:
    arg, kind = arguments(rows_by_name()[one.call])[one.index] if one.values or one.without else ("", "")
    if one.values:
        test = ArgTest(one.index, arg, "in", {spelled(kind, value): value for value in one.values})
        return Claim(one.call, MISSING, DEFAULT_ERRNO, "", "", (Note((test,), FULL),))
    if one.without:
        bits = {name: bit for name, bit in CLONE_NAMESPACES.items() if bit & one.without}
        test = ArgTest(0, arg, "any", bits)
        return Claim(one.call, FULL, 0, "", "", (Note((test,), MISSING, DEFAULT_ERRNO),))
    return Claim(one.call, FULL)


def in_order(profile: Profile) -> list[str]:
    """The calls that pass, by number."""
    return sorted((one.call for one in profile.allowed), key=number)
