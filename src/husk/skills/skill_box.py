"""skills: husk.Skill for applications: a box that stays open, in which an agent works by a skill's instructions.

The box is a husk.Sandbox that was prepared as `husk skill exec` does it: it starts once, and each command after that
costs a command. The private copies and package layers that it shows stay as long as it, its snapshots and its forks do.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from husk.api.box_snapshot import Snapshot
from husk.api.options import box_name, environment, mounts_of
from husk.api.run_result import speaking_python
from husk.api.sandbox import Sandbox
from husk.skills.box_runner import Setting
from husk.skills.open_skill import open_skill
from husk.skills.output_files import Staging
from husk.skills.package_wishes import lock_of, read_wishes
from husk.skills.permission_file import Permissions, read_permissions
from husk.skills.running import Prepared, Request, prepare
from husk.skills.skill_places import INPUT, WORK, place_of

if TYPE_CHECKING:
    from husk.api.runs import Runs
    from husk.sandbox.policy import Mount

Name = str | os.PathLike[str]


class Skill:
    """A skill: a folder with a SKILL.md, or a .skill or .zip file. husk.UsageError: it is none, or cannot be used.

    `name` and `description` are what it says of itself, `instructions` is its SKILL.md. All of it is a stranger's."""

    def __init__(self, path: Name) -> None:
        self.path = Path(path)
        with open_skill(self.path) as skill:
            skill.check()
            self.name, self.description = skill.name, skill.head.description
            self.instructions = skill.text("SKILL.md")

    def open(
        self,
        *,
        also: Iterable[Skill | Name] = (),
        permissions: Name | Iterable[Name] = (),
        input: Name | None = None,
        work: Name | None = None,
        mounts: Iterable[str | Mount] = (),
        net: Iterable[str] = (),
        env: Mapping[str, str] | None = None,
        limits: Mapping[str, int | str | None] | None = None,
        install: Iterable[str] = (),
        packages: Iterable[Name] = (),
        find_links: Name | None = None,
        fetch: bool = False,
        lock: Name | None = None,
        image: str = "",
        store: str = "",
        keep: str = "",
        namespaces: bool = True,
        weaken: Iterable[str] = (),
    ) -> SkillBox:
        """A box with the skill in it, at /skills/NAME, to be closed (or used with `with`). Programs start in a copy of
        the skill's folder, or in `work`. The arguments are the options of `husk skill exec`."""
        given = [permissions] if isinstance(permissions, (str, os.PathLike)) else list(permissions)
        manifests = [Path(path) for path in given]
        wanted, wanted_npm = read_wishes(list(install), "install")
        request = Request(
            in_copy=True,
            shell=True,
            terminal=False,
            more_permissions=[read_permissions(path) for path in manifests],
            input=None if input is None else Path(input),
            work=None if work is None else Path(work),
            mounts=mounts_of(mounts),
            hosts=list(net),
            env=environment(env),
            limits={name: "none" if value is None else str(value) for name, value in (limits or {}).items()},
            packages=[Path(folder) for folder in packages],
            find_links=None if find_links is None else Path(find_links),
            fetch=fetch,
            wanted=wanted,
            wanted_npm=wanted_npm,
            lock=lock_of(manifests) if lock is None else Path(lock),
            keep=box_name(keep),
            setting=Setting(image, store, namespaces, frozenset(weaken)),
        )
        with speaking_python():
            return open_box(request, self.path, *(one.path if isinstance(one, Skill) else Path(one) for one in also))

    def __repr__(self) -> str:
        return f"<husk.Skill {self.name!r} at {str(self.path)!r}>"


def open_box(request: Request, *paths: Path) -> SkillBox:
    """A box for the skills at `paths`. The request asks for a shell, and for no output: `SkillBox.save` gives that."""
    with ExitStack() as opened:
        lasting = bool(request.keep)  # a kept box outlives a copy
        skill, *also = [opened.enter_context(open_skill(path, frozen=not lasting, watched=lasting)) for path in paths]
        prepared = prepare(skill, request, also)
        opened.callback(prepared.close)
        return SkillBox(prepared, Holdings(opened.pop_all()))


class Holdings:
    """What several boxes and snapshots show: removed with the last of them."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened, self._users, self._lock = opened, 1, threading.Lock()

    def share(self) -> Holdings:
        with self._lock:
            self._users += 1
        return self

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            last = not self._users
        if last:
            self._opened.close()


@dataclass(frozen=True)
class Saved:
    """`files` are in the directory now; `left` says what stays in the box, and why."""

    files: list[str]
    left: list[str]


class SkillBox(Sandbox):
    """A husk.Sandbox with skills in it. `notes`: what the user should know before anything runs; `places`: where the
    skills are; `permissions`: what holds in the box, None without a manifest."""

    def __init__(self, prepared: Prepared, held: Holdings) -> None:
        """`held` is the box's to release."""
        self._describe(prepared, held)
        try:
            self._open_new(prepared.policy)
        except BaseException:
            held.release()
            raise

    def _describe(self, prepared: Prepared, held: Holdings) -> None:
        self._prepared, self._held = prepared, held
        self.notes: list[str] = prepared.notes
        self.places: list[str] = [place_of(skill) for skill in prepared.skills]
        self.permissions: Permissions | None = prepared.permissions

    def _like(self, runs: Runs) -> SkillBox:
        """A box from a snapshot of this one."""
        box = SkillBox.__new__(SkillBox)
        box._describe(self._prepared, self._held.share())
        box._open(runs)
        return box

    def snapshot(self) -> Snapshot:
        return SkillSnapshot(self._runs, self._like, self._held.share())

    def save(self, directory: Name) -> Saved:
        """Put what changed in the working directory and in /in into a directory of the host, which is made if it is not
        there. Caches and links are not put there."""
        staging = Staging(Path(directory))
        try:
            changes = [(change.kind, change.path) for change in self.diff()]
            left = []
            for place in (WORK, INPUT):
                left += staging.take(self, changes, place)
            found = staging.publish()
            return Saved([name for name, _ in found.files], found.left + left)
        finally:
            staging.remove()

    def close(self) -> None:
        was = self.closed
        super().close()
        if not was:
            self._held.release()

    def __enter__(self) -> SkillBox:
        return self

    def __repr__(self) -> str:
        names = ", ".join(place.rpartition("/")[2] for place in self.places)
        return f"<husk.SkillBox of {names}, {'closed' if self.closed else 'open'}>"


class SkillSnapshot(Snapshot):
    """A snapshot of a skill's box."""

    def __init__(self, runs: Runs, opened: Callable[[Runs], Sandbox], held: Holdings) -> None:
        self._skill_held: Holdings | None = held
        try:
            super().__init__(runs, opened)
        except BaseException:
            held.release()
            raise

    def close(self) -> None:
        super().close()
        held, self._skill_held = self._skill_held, None
        if held is not None:
            held.release()


__all__ = ["Skill", "SkillBox"]
