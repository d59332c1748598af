"""sandbox: which host directories stay closed in a box, and the guards of its mounts' roots (native/host/guard.c).

Closed by identity are husk's state, its store, the directory where a resident husk listens, and every host directory
that a nested mount covers: a guest may rename what lies above them, and keep that, and the host may have a second path
to them. Not here: the walk that heeds it.
"""

from __future__ import annotations

import os

from husk.native._core import guard_root, kernel_file_system, mount_id, upward
from husk.sandbox.errors import UsageError
from husk.vfs.layer.layered_tree import LayeredTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.sandbox.policy import Mount
    from husk.sandbox.rules.mount_rules import Found, NativeRule, RootRules
    from husk.sandbox.rules.path_rule import PathRule
    from husk.vfs.host.host_tree import HostTree
    from husk.vfs.layer.lower import Lower
    from husk.vfs.node import Dir
    from husk.vfs.vfs import Vfs

    Identity = tuple[int, int]  # device and inode

ONLY_NAMED = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class OwnPlaces:
    """husk's own directories, by identity, with all that lie above them."""

    __slots__ = ("_inner", "above", "above_state", "chains", "identities", "resident", "state", "store")

    def __init__(self, state: str, store: str) -> None:
        self.state, self.store = state, store
        self._inner: set[Identity] | None = None
        self.identities: list[Identity] = []
        self.above: list[Identity] = []
        self.chains = [Chain(os.open(state, ONLY_NAMED))]
        self.above_state = self.chains[0].above
        if os.path.isdir(store):
            self.chains.append(Chain(os.open(store, ONLY_NAMED)))
        self.resident: list[Identity] = []
        # native/client. The variable may be missing in this run and set in the next.
        for runtime in {os.environ.get("XDG_RUNTIME_DIR") or "/nowhere", f"/run/user/{os.geteuid()}"}:
            if os.path.isdir(resident := os.path.join(runtime, "husk")):
                self.chains.append(Chain(os.open(resident, ONLY_NAMED)))
                self.resident.append(self.chains[-1].here)
        for chain in self.chains:
            self.identities.append(chain.here)
            self.above += chain.above

    def holds(self, identity: Identity) -> bool:
        """Is this one of them, or one of the directories in it, by whatever path?"""
        if self._inner is None:
            self._inner = {inner for path in (self.state, self.store) for inner in _inside(path, 2)}
        return identity in self.identities or identity in self._inner


def check_source(mount: Mount, own: OwnPlaces) -> None:
    """Raises for a source that no guest may have at all."""
    fd = os.open(mount.source, os.O_PATH | os.O_CLOEXEC)
    try:
        name = kernel_file_system(fd)
        found = os.fstat(fd)
    finally:
        os.close(fd)
    if name:
        raise UsageError(
            f"{name} speaks for the host's kernel, which would judge husk instead of the guest; a box has a /proc and "
            "a /sys of its own.",
            option="mount",
            value=mount.source,
        )
    identity = found.st_dev, found.st_ino
    if identity in own.resident:
        raise UsageError("a resident husk listens there, where no guest may reach.", option="mount", value=mount.source)
    if own.holds(identity) or (mount.mode == "rw" and identity in own.above_state):
        raise UsageError(
            f"husk keeps the files of its boxes below it ({own.state}), where no guest may reach; set HUSK_STATE to a "
            "directory elsewhere.",
            option="mount",
            value=mount.source,
        )


class MountRoot:
    """The root of a mount that the caller asked for. `owner`: with which credentials husk acts beneath it; None: its
    own. `holder` has the descriptor, and gets the rules."""

    __slots__ = ("holder", "mount", "owner")

    def __init__(self, mount: Mount, holder: HostTree | Lower, owner: tuple[int, int] | None) -> None:
        self.mount, self.holder, self.owner = mount, holder, owner


def guard_mounts(
    vfs: Vfs, image: LayeredTree, roots: list[MountRoot], own: OwnPlaces, rules: list[PathRule]
) -> list[int]:
    """Returns descriptors that must stay open as long as the box: they hold the files that rules name."""
    covered = [Chain(fd) for fd in _covered(vfs)]
    closed = list({*own.identities, *(chain.here for chain in covered)})
    held = _Held(roots, rules, {chain.here for chain in covered})
    try:
        systems = _file_systems()
        writable = {Chain(fd).here for fd in _writable(vfs)}
        named = [Chain(os.dup(one.fd)) for one in held.closed_directories()]
        owners = {root.holder.fd: root for root in roots}
        fds = [*owners, *(lower.fd for lower in image.lowers if lower.is_host and lower.fd not in owners)]
        for fd in fds:
            root, top = owners.get(fd), Chain(os.dup(fd))
            beneath = (*own.chains, *covered, *(named if root is not None else ()))
            holds_closed = any(chain.may_lie_beneath(top, systems) for chain in beneath) or any(
                chain.may_be_moved_beneath(top, writable) for chain in covered
            )
            native, ruled = held.rules_at(root) if root is not None else ([], [])
            guard_root(fd, closed, own.above, holds_closed, root.owner if root is not None else None, native, ruled)
    except BaseException:
        held.close()
        raise
    return held.descriptors()


class _Held:
    """The rules of every mount's root, and the files that they name."""

    __slots__ = ("_at", "_found")

    def __init__(self, roots: list[MountRoot], rules: list[PathRule], covered: set[Identity]) -> None:
        """What a mount covers is closed already, and its place must be seen."""
        self._at: dict[int, RootRules] = {}
        self._found: list[Found] = []
        if not rules:
            return
        from husk.sandbox.rules.mount_rules import RootRules, check_hosts, check_points, find_named
        from husk.sandbox.rules.path_rule import homes

        mounts = [root.mount for root in roots]
        check_hosts(rules, mounts)
        all_homes = homes()
        try:
            for root in (one for one in roots if one.mount.ruled):
                inside = f"{root.mount.target}/"
                points = [one.target.removeprefix(inside) for one in mounts if one.target.startswith(inside)]
                here = self._at[root.holder.fd] = RootRules(rules, root.mount, points, all_homes)
                guard_root(root.holder.fd, [], [], False, root.owner, here.native)
                check_points(root.holder.fd, root.mount, points, here)
                for found in find_named(root.holder.fd, root.mount.source, here):
                    if found.identity in covered or any(found.identity == one.identity for one in self._found):
                        os.close(found.fd)
                    else:
                        self._found.append(found)
        except BaseException:
            self.close()
            raise

    def closed_directories(self) -> list[Found]:
        return [found for found in self._found if found.is_dir and found.rule.verb in ("hide", "deny")]

    def rules_at(self, root: MountRoot) -> tuple[list[NativeRule], list[tuple[int, int, int]]]:
        """For the guard; and the holder gets its own."""
        here = self._at.get(root.holder.fd)
        if here is None:
            return [], []
        from husk.vfs.host.tree_rules import TreeRules

        numbers = {found.identity: here.number(found.rule) for found in self._found}
        root.holder.rules = TreeRules(root.holder.fd, here.texts, numbers)
        ruled = [(*found.identity, numbers[found.identity]) for found in self._found]
        return here.native, ruled

    def descriptors(self) -> list[int]:
        return [found.fd for found in self._found]

    def close(self) -> None:
        for fd in self.descriptors():
            os.close(fd)


def _covered(vfs: Vfs) -> Iterator[int]:
    """A descriptor of every host directory that a mount covers, the caller's to close."""
    for _, tree in vfs.mounts():
        node: Dir | None = tree.root.covers
        try:
            fd = node.tree.host_directory_fd(node) if node is not None else None
            if fd is not None:
                yield fd
        except FileNotFoundError:
            continue  # a mount point of the box's own: it covers nothing of the host's


def _writable(vfs: Vfs) -> Iterator[int]:
    """A descriptor of the root of every `rw` mount, the caller's to close."""
    for _, tree in vfs.mounts():
        fd = tree.host_directory_fd(tree.root) if tree.writes_to_host and not tree.read_only else None
        if fd is not None:
            yield fd


class Chain:
    """A directory and those above it, up to the host's root, by identity; and the host's mount that it was reached by.
    Closes `fd`."""

    __slots__ = ("above", "here", "mount")

    def __init__(self, fd: int) -> None:
        try:
            self.mount = mount_id(fd)  # -1: not known
            self.here, *self.above = upward(fd)
        finally:
            os.close(fd)

    def may_lie_beneath(self, root: Chain, systems: dict[int, bytes]) -> bool:
        """Can a walk from `root` that crosses no mount come here? Within one mount a directory has one path. By another
        mount of the same file system there may be a second one, which `..` does not show."""
        if root.here in self.above:
            return True
        here, there = systems.get(self.mount), systems.get(root.mount)
        return here is None or there is None or (here == there and self.mount != root.mount)

    def may_be_moved_beneath(self, root: Chain, writable: set[Identity]) -> bool:
        """Can a guest rename a directory above this one to a place beneath `root`, which is another mount? Not this
        directory itself (`is_fixed`), and no directory into itself."""
        around = {root.here, *root.above}
        if self.here in around:
            return False
        for place, identity in enumerate(self.above):
            if identity in around:
                return place > 0 and not writable.isdisjoint(self.above[place:])
        return False


def _file_systems() -> dict[int, bytes]:
    """The device of each of the host's mounts. All mounts of one file system have the same, unlike st_dev on btrfs."""
    try:
        with open("/proc/self/mountinfo", "rb", buffering=0) as file:
            lines = file.readall().splitlines()
    except OSError:
        return {}
    return {int(fields[0]): fields[2] for fields in (line.split(b" ", 3) for line in lines)}


def _inside(path: str, depth: int) -> Iterator[Identity]:
    try:
        with os.scandir(path) as entries:
            folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        for entry in folders:
            info = entry.stat(follow_symlinks=False)
            yield info.st_dev, info.st_ino
            if depth > 1:
                yield from _inside(entry.path, depth - 1)
    except OSError:
        return  # gone meanwhile
