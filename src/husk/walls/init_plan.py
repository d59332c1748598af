"""walls: the plan husk writes for husk-init, and the layout of what both say. native/init/plan.h mirrors this.

Here: layouts, numbers and packing. Not here: starting husk-init and talking with it (husk.sandbox.launch).
"""

from __future__ import annotations

from _struct import Struct  # the bare C module: see cli/cmd_run.py

from husk.walls.landlock import landlock_rights
from husk.walls.namespaces import clone_flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from husk.abi.registry.rules import Walls
    from husk.walls.ids import Ids

PLAN_MAGIC, SWITCH_USER, TERMINAL, WAIT, JOIN, PERSON, PRIVATE_NETWORK, LEADS = 0x344E4C50, 1, 2, 4, 8, 16, 32, 64
DIRECT = 128
TERMINAL_FD, START_FD, JOIN_FD, PERSON_FD = 7, 8, 9, 14
SAID_GO, SAID_END = b"g", b"e"

PLAN = Struct("<IIQIIQQQQIIIIIIIIIIQ")
LIMIT = Struct("<QQQ")  # resource, soft, hard
LIMITS_BYTES = 16 * LIMIT.size
REPORT = Struct("<IiiIqqqq")
FAILED, MAP_IDS, LISTENER, EXEC_FAILED, ENDED, STOPPED = 1, 2, 3, 4, 5, 6
DIAGNOSIS, REAPER, STATE, GUEST, NAMES = 7, 8, 9, 10, 11
START = Struct("<QII")


class Order:
    """What husk-init needs to launch one run. Without `argv` the guest waits behind its walls until it is told what to
    run. `terminal` is the box's terminal. `person` is the person's terminal, where husk is going to change its modes.
    `leads`: it leads a session of its own. `direct`: it may look up names of /usr itself. `joined` are descriptors
    of the box's namespaces, where an earlier run made them. `mark` is the hard limit on file locks that husk knows the
    run's processes by (husk.sandbox.orphans)."""

    __slots__ = (
        "argv",
        "direct",
        "env",
        "filter",
        "init",
        "joined",
        "leads",
        "loader_fd",
        "mark",
        "person",
        "program",
        "rlimits",
        "stdio",
        "terminal",
    )

    def __init__(
        self,
        init: str,
        loader_fd: int,
        program_filter: bytes,
        rlimits: list[tuple[int, int]],
        stdio: Sequence[int],
        *,
        joined: Sequence[int] = (),
        program: bytes = b"",
        argv: Sequence[bytes] = (),
        env: Sequence[bytes] = (),
        terminal: int = -1,
        person: int = -1,
        mark: int = 0,
        leads: bool = False,
        direct: bool = False,
    ) -> None:
        self.init, self.loader_fd, self.filter, self.rlimits = init, loader_fd, program_filter, rlimits
        self.stdio, self.joined = stdio, joined
        self.program, self.argv, self.env = program, argv, env
        self.terminal, self.person, self.mark, self.leads = terminal, person, mark, leads
        self.direct = direct


def pack(walls: Walls, ids: Ids, order: Order) -> bytes:
    program, argv, env, rlimits, program_filter = order.program, order.argv, order.env, order.rlimits, order.filter
    filter_at = PLAN.size + LIMITS_BYTES
    program_at = filter_at + len(program_filter)
    argv_at = program_at + len(program) + 1
    strings = b"".join(word + b"\0" for word in argv)
    env_at = argv_at + len(strings)
    head = PLAN.pack(
        PLAN_MAGIC,
        (SWITCH_USER if ids.switch else 0)
        | (TERMINAL if order.terminal >= 0 else 0)
        | (0 if argv else WAIT)
        | (JOIN if order.joined else 0)
        | (PERSON if order.person >= 0 else 0)
        | (LEADS if order.leads else 0)
        | (DIRECT if order.direct else 0)
        | (PRIVATE_NETWORK if walls.private_net else 0),
        clone_flags(walls),
        ids.uid,
        ids.gid,
        *landlock_rights(walls.landlock, own_network=walls.private_net),
        walls.landlock,
        len(program_filter) // 8,
        filter_at,
        program_at,
        len(argv),
        argv_at,
        len(env),
        env_at,
        len(rlimits),
        0,
        order.mark,
    )
    limits = b"".join(LIMIT.pack(resource, value, value) for resource, value in rlimits)
    texts = program + b"\0" + strings + b"".join(word + b"\0" for word in env)
    return head + limits.ljust(LIMITS_BYTES, b"\0") + program_filter + texts
