"""Layer walls: the calls that end gates and direct names.

Both answer in the name of the whole box. So they end before a guest can be told apart from the others: when it gets a
filter of its own, or a tracer that has to see its calls. Those calls are native; the filter shows them to husk.
"""

from __future__ import annotations

from husk.abi.registry import ROWS
from husk.abi.registry.rules import Arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.abi.box_walls import Walls
    from husk.abi.registry.rules import ArgTest

_SECCOMP, _PRCTL, _PTRACE = 317, 157, 101

# As gate_is_over in native/gate/keeper.c knows them.
CLOSING = {
    _SECCOMP: Arg(0, "the operation").is_in({"SECCOMP_SET_MODE_STRICT": 0, "SECCOMP_SET_MODE_FILTER": 1}),
    _PRCTL: Arg(0, "the option").is_in({"PR_SET_SECCOMP": 22}),
    _PTRACE: Arg(0, "the request").is_in({"PTRACE_TRACEME": 0, "PTRACE_ATTACH": 16, "PTRACE_SEIZE": 0x4206}),
}


def closing_calls(walls: Walls) -> dict[int, list[list[ArgTest]]]:
    """The cases of native calls that the filter has to notify. What these walls refuse, they go on refusing."""
    found: dict[int, list[list[ArgTest]]] = {}
    for nr, test in CLOSING.items():
        values = sorted(test.values)
        if all(ROWS[nr].verdict([value, 0, 0, 0, 0, 0], walls).way == "native" for value in values):
            found[nr] = [[test]]
    return found
