"""mcp: one client session: its boxes by name, the states it committed, and the results of its runs.

Life: made when a client connects, closed when it disconnects, and nothing of it stays. Methods that wait are
coroutines; the work is done in threads, so that one client's box never delays another client.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from husk.api.aio import AsyncSandbox, AsyncSnapshot, in_thread, opened_by
from husk.mcp.answers import STREAMS
from husk.mcp.config import read_limits
from husk.mcp.kept_ceiling import check_kept
from husk.mcp.programs import Programs
from husk.sandbox.errors import UsageError
from husk.sandbox.policy import Mount, Publish

if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.api.sandbox import Sandbox
    from husk.mcp.config import Config

MAIN = "main"
MOST_KEPT = 64 << 20  # bytes of output in all results of a session
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class SessionBox:
    """A box and what it was opened with. `again` opens another like it; None: an ordinary one. `kept`: the name under
    which the person at the host finds it."""

    def __init__(
        self,
        box: AsyncSandbox,
        limits: dict[str, str],
        *,
        again: Callable[[], Sandbox] | None = None,
        image: str = "",
        kept: str = "",
        publish: tuple[str, ...] = (),
    ) -> None:
        self.box, self.limits, self.again, self.image, self.kept = box, limits, again, image, kept
        self.publish = publish

    def like(self, box: AsyncSandbox) -> SessionBox:
        """Another box, opened in the same way; it is not kept."""
        return SessionBox(box, self.limits, again=self.again, image=self.image)


class Commit:
    def __init__(self, held: SessionBox, box: str, snapshot: AsyncSnapshot) -> None:
        self.box, self.held, self.snapshot = box, held, snapshot


class Session:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.boxes: dict[str, SessionBox] = {}
        self.commits: dict[str, Commit] = {}
        self.programs = Programs(config.session.programs)
        self.results: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._count = 0
        self._boxes_lock = asyncio.Lock()  # guards the set of boxes; never held while a client's program runs

    # -- boxes -------------------------------------------------------------------------------------------------
    async def box(self, name: str) -> AsyncSandbox:
        """The box of that name, opened now if needed."""
        async with self._boxes_lock:
            if name not in self.boxes:
                await self._open(name, self.config.limits, keep=self.config.session.keep_main if name == MAIN else "")
            return self.boxes[name].box

    async def open(self, name: str, limits: dict[str, str], *, image: str, keep: str) -> SessionBox:
        allowed = self.config.lower_limits(limits)
        self.config.check_keep(keep)
        if image and not self.config.may_use(image):
            raise UsageError(f"image {image!r}: this server gives it to no client; the tool `images` lists the others.")
        async with self._boxes_lock:
            if name in self.boxes:
                raise UsageError(f"there is a box {name!r} already; close it first, or choose another name.")
            await self._open(name, allowed, image=image, keep=keep)
            return self.boxes[name]

    def run_seconds(self, name: str, wanted: float | None) -> float | None:
        """How long a run in that box may take: as the client asks, at most what the config and the box give."""
        seconds, held = self.config.run_seconds(wanted), self.boxes.get(name)
        most = read_limits(held.limits)["time"] if held is not None else None
        return most if seconds is None else seconds if most is None else min(seconds, most)

    def program_seconds(self, name: str, wanted: float | None) -> float:
        """How long a program may run on: as the client asks, at most what the config gives. `limits.time` is for runs
        that a client waits for; only a client's own tighter one counts here."""
        most, held = float(self.config.session.program_time), self.boxes.get(name)
        if wanted is not None and not 0 < wanted < 1e9:
            raise UsageError("timeout: give a number of seconds above 0.")
        own = held.limits.get("time") if held is not None else None
        if own is not None and own != self.config.limits.get("time"):
            most = min(most, read_limits({"time": own})["time"] or most)
        return most if wanted is None else min(wanted, most)

    async def published_box(self, name: str, publish: list[str]) -> AsyncSandbox:
        """The box of that name with these ports. Ports belong to a box from its start, so an open one that lacks them
        is opened again with its files; nothing may run in it."""
        wishes = tuple(text if ":" in text else f"0:{text}" for text in publish)
        for text in wishes:
            self.config.check_publish(Publish.parse(text))
        if not wishes:
            return await self.box(name)
        async with self._boxes_lock:
            held = self.boxes.get(name)
            if held is None:
                keep = self.config.session.keep_main if name == MAIN else ""
                await self._open(name, self.config.limits, keep=keep, publish=wishes)
            elif new := [text for text in wishes if text not in held.publish]:
                await self._open_again(name, held, (*held.publish, *new))
            return self.boxes[name].box

    async def _open_again(self, name: str, held: SessionBox, publish: tuple[str, ...]) -> None:
        if held.again is not None:
            raise UsageError(f"the box {name!r} is a skill's, which publishes no ports; use another one.")
        if not held.box.sandbox.idle:
            raise UsageError(
                f"something runs in the box {name!r}, which began without these ports; stop it, or use another box."
            )
        del self.boxes[name]
        if held.kept:
            await held.box.close()
            await self._open(name, held.limits, image=held.image, keep=held.kept, publish=publish)
            return
        async with await held.box.snapshot() as files:
            await held.box.close()  # it has the ports it had
            again = held.like(held.box)
            try:
                again.box, again.publish = await files.open(publish=publish), publish
            except BaseException:
                again.box, again.publish = await files.open(publish=held.publish), held.publish
                raise
            finally:
                self.boxes[name] = again

    async def open_made(
        self, name: str, limits: dict[str, str], make: Callable[[], Sandbox], *, kept: str
    ) -> AsyncSandbox:
        """Open a box that `make` makes, in a thread."""
        async with self._boxes_lock:
            if name in self.boxes:
                raise UsageError(f"there is a box {name!r} already; close it first, or choose another name.")
            self._check_room(name)
            if kept:
                await in_thread(lambda: check_kept(self.config, kept))
            self.boxes[name] = SessionBox(await opened_by(make), limits, again=make, kept=kept)
            return self.boxes[name].box

    async def close_box(self, name: str) -> str:
        """Returns the name under which it is kept, if it is."""
        async with self._boxes_lock:
            held = self._get(name)
            del self.boxes[name]
            await held.box.close()
            return held.kept

    async def fork(self, name: str, new: str) -> int:
        """Open a second box with the same files; returns how many changes it starts with."""
        async with self._boxes_lock:
            held = self._get(name)
            if new in self.boxes:
                raise UsageError(f"there is a box {new!r} already; choose another name.")
            self._check_room(new)
            changes = len(await held.box.diff())
            self.boxes[new] = held.like(await held.box.fork())
            return changes

    async def commit(self, name: str, label: str) -> int:
        _check_name("label", label)
        async with self._boxes_lock:
            held = self._get(name)
            if label not in self.commits and len(self.commits) >= self.config.session.commits:
                raise UsageError(
                    f"this session may keep {self.config.session.commits} states; commit under a label that is there: "
                    f"{', '.join(self.commits)}."
                )
            changes = len(await held.box.diff())
            snapshot, older = await held.box.snapshot(), self.commits.get(label)
            self.commits[label] = Commit(held, name, snapshot)
            if older is not None:
                await older.snapshot.close()
            return changes

    async def commit_image(self, name: str, image: str) -> str:
        """Make an image of the box's changes in the host's store, which outlives the session; returns its layer."""
        self.config.check_image_name(image)
        async with self._boxes_lock:
            held = self._get(name)
            return await in_thread(lambda: held.box.sandbox.commit(image))

    async def rollback(self, name: str, label: str) -> str:
        """Reset the box `name` (default: the one that was committed) to a commit, or to its first state. Ends what runs
        in it."""
        async with self._boxes_lock:
            if label and label not in self.commits:
                known = f"; there are {', '.join(self.commits)}" if self.commits else "; nothing was committed"
                raise UsageError(f"there is no commit {label!r}{known}.")
            commit = self.commits.get(label)
            name = name or (commit.box if commit else MAIN)
            if (kept := self.boxes.get(name)) is not None and kept.kept:
                raise UsageError(
                    f"the box {name!r} is kept as {kept.kept!r}, and what is kept is not rolled back; roll back into "
                    "another box: rollback(label=…, box=…)."
                )
            old = self.boxes.pop(name, None)
            try:
                # Open the new box first: if that fails the old one stays.
                if commit is None and old is not None and old.again is not None:
                    self.boxes[name] = old.like(await opened_by(old.again))
                elif commit is None:
                    await self._open(name, old.limits if old else self.config.limits, image=old.image if old else "")
                else:
                    self._check_room(name)
                    self.boxes[name] = commit.held.like(await commit.snapshot.open())
            except BaseException:
                if old is not None:
                    self.boxes[name] = old
                raise
            if old is not None:
                await old.box.close()
            return name

    async def _open(
        self, name: str, limits: dict[str, str], *, image: str = "", keep: str = "", publish: tuple[str, ...] = ()
    ) -> None:
        self._check_room(name)
        if keep:
            await in_thread(lambda: check_kept(self.config, keep))
        image = image or self.config.box.image
        box = await make_sandbox(self.config, limits, image, keep, publish).__aenter__()
        self.boxes[name] = SessionBox(box, limits, image=image, kept=keep, publish=publish)

    def _check_room(self, name: str) -> None:
        _check_name("box", name)
        most = self.config.session.boxes
        if len(self.boxes) >= most:
            raise UsageError(f"this session may have {most} boxes; close one of {', '.join(self.boxes)} first.")

    def _get(self, name: str) -> SessionBox:
        if name not in self.boxes:
            known = f"; there are {', '.join(self.boxes)}" if self.boxes else "; nothing has run yet"
            raise UsageError(f"there is no box {name!r}{known}.")
        return self.boxes[name]

    # -- results -----------------------------------------------------------------------------------------------
    def keep_result(self, result: dict[str, Any]) -> str:
        """Keep a result as a resource and drop the oldest ones; returns its address."""
        self._count += 1
        self.results[self._count] = result
        while len(self.results) > self.config.session.results or (len(self.results) > 1 and self._size() > MOST_KEPT):
            self.results.popitem(last=False)
        return f"husk://results/{self._count}"

    def _size(self) -> int:
        return sum(len(result[stream]) for result in self.results.values() for stream in STREAMS)

    def result(self, number: str) -> dict[str, Any]:
        found = self.results.get(int(number)) if number.isascii() and number.isdigit() else None
        if found is None:
            raise UsageError(f"there is no result {number}; this session keeps {list(self.results) or 'none yet'}.")
        return found

    # -- life --------------------------------------------------------------------------------------------------
    async def close(self) -> None:
        boxes, self.boxes = list(self.boxes.values()), {}
        commits, self.commits = list(self.commits.values()), {}
        await asyncio.gather(*(held.box.close() for held in boxes))
        for commit in commits:  # each removes what neither boxes nor commits need any more; the last one, all
            await commit.snapshot.close()


def make_sandbox(
    config: Config, limits: dict[str, str], image: str, keep: str, publish: tuple[str, ...]
) -> AsyncSandbox:
    """Make a client's box: the only place that does. All arguments were checked against the config."""
    box, network = config.box, config.network
    return AsyncSandbox(
        image,
        keep=keep,
        publish=publish,
        store=box.store,
        mounts=[Mount.parse_again(text) for text in box.mounts],
        hide=box.hide,
        deny=box.deny,
        protect=box.protect,
        allow=box.allow,
        default_rules=box.default_rules,
        env=box.env,
        cwd=box.workdir,
        limits=limits,
        namespaces=box.namespaces,
        weaken=box.weaken,
        net=network.mode if network.mode != "none" else network.allow or None,
        deny_net=network.deny,
        allow_http=network.http,
        inject=network.inject,
    )


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{what} {name!r}: a name has letters, digits and . _ - and begins with a letter or digit.")
