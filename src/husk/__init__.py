"""husk: a user-space Linux kernel that runs programs you need not trust.

    with husk.Sandbox(mounts=[".:/work:ro"]) as box:
        print(box.run(["ls", "/work"], capture_output=True, text=True).stdout)

What is public is named here and imported when it is first used, so that `import husk` and `husk run` stay quick.
docs/api.md shows how to use it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.api.aio import AsyncSandbox, AsyncSnapshot
    from husk.api.applying import Applied
    from husk.api.asker_words import Remedy
    from husk.api.async_process import AsyncBackgroundProcess, AsyncProcess
    from husk.api.background_process import BackgroundProcess, Logs, Port
    from husk.api.box_snapshot import Snapshot
    from husk.api.detached_box import DetachedBox
    from husk.api.functions.executor import Executor, Progress, TaskFailed
    from husk.api.functions.mapping import ItemFailed, map, map_unordered
    from husk.api.once import run
    from husk.api.pool import Pool
    from husk.api.process import DEVNULL, PIPE, STDOUT, Process
    from husk.api.run_result import CalledProcessError, Change, Denial, Result, TimeoutExpired, Usage
    from husk.api.sandbox import Sandbox
    from husk.api.tree_copy import Copied
    from husk.cli.profiles.python_options import profile
    from husk.kernel.hooks import Seen
    from husk.sandbox.apply.apply_plan import Conflict
    from husk.sandbox.errors import HuskError, NotExecutable, NotFound, UsageError
    from husk.sandbox.limits.limits import Exceeded
    from husk.sandbox.policy import Mount
    from husk.skills.skill_box import Saved, Skill, SkillBox
    from husk.vfs.node import Stat

__version__ = "0.1.0"
__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "Applied",
    "AsyncBackgroundProcess",
    "AsyncProcess",
    "AsyncSandbox",
    "AsyncSnapshot",
    "BackgroundProcess",
    "CalledProcessError",
    "Change",
    "Conflict",
    "Copied",
    "Denial",
    "DetachedBox",
    "Exceeded",
    "Executor",
    "HuskError",
    "ItemFailed",
    "Logs",
    "Mount",
    "NotExecutable",
    "NotFound",
    "Pool",
    "Port",
    "Process",
    "Progress",
    "Remedy",
    "Result",
    "Sandbox",
    "Saved",
    "Seen",
    "Skill",
    "SkillBox",
    "Snapshot",
    "Stat",
    "TaskFailed",
    "TimeoutExpired",
    "Usage",
    "UsageError",
    "map",
    "map_unordered",
    "profile",
    "run",
]
_HOMES = {
    "husk.api.aio": ("AsyncSandbox", "AsyncSnapshot"),
    "husk.api.async_process": ("AsyncBackgroundProcess", "AsyncProcess"),
    "husk.api.background_process": ("BackgroundProcess", "Logs", "Port"),
    "husk.api.applying": ("Applied",),
    "husk.api.asker_words": ("Remedy",),
    "husk.api.detached_box": ("DetachedBox",),
    "husk.api.functions.executor": ("Executor", "Progress", "TaskFailed"),
    "husk.api.functions.mapping": ("ItemFailed", "map", "map_unordered"),
    "husk.api.once": ("run",),
    "husk.api.pool": ("Pool",),
    "husk.api.process": ("DEVNULL", "PIPE", "STDOUT", "Process"),
    "husk.api.run_result": ("CalledProcessError", "Change", "Denial", "Result", "TimeoutExpired", "Usage"),
    "husk.api.sandbox": ("Sandbox",),
    "husk.api.tree_copy": ("Copied",),
    "husk.api.box_snapshot": ("Snapshot",),
    "husk.cli.profiles.python_options": ("profile",),
    "husk.kernel.hooks": ("Seen",),
    "husk.sandbox.apply.apply_plan": ("Conflict",),
    "husk.sandbox.errors": ("HuskError", "NotExecutable", "NotFound", "UsageError"),
    "husk.sandbox.limits.limits": ("Exceeded",),
    "husk.sandbox.policy": ("Mount",),
    "husk.skills.skill_box": ("Saved", "Skill", "SkillBox"),
    "husk.vfs.node": ("Stat",),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            import importlib

            found: object = getattr(importlib.import_module(module), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module 'husk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
