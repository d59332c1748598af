"""sandbox: the file system of a box, from the policy: default image, synthesised trees, mounts."""

from __future__ import annotations

import errno
import os
import stat as st

from husk.kernel.tasks import TasksHere
from husk.native._core import stat_beneath
from husk.sandbox.errors import HuskError, NotExecutable, NotFound, NoWorkdir, UsageError
from husk.sandbox.policy import HOME, USER, WORKDIR
from husk.vfs.clock import now
from husk.vfs.image.default_image import default_image, make_directory_in
from husk.vfs.image.etc_files import etc_files
from husk.vfs.layer.inodes import Inode, LayerDir
from husk.vfs.layer.layered_tree import LayeredTree
from husk.vfs.node import ROOT_CONTEXT, Context, Credentials, Dir
from husk.vfs.permissions import id_map, overflow_map
from husk.vfs.proc.proc_tree import ProcTree
from husk.vfs.state import State
from husk.vfs.synth.dev import DevTree
from husk.vfs.synth.pts import PtsTree
from husk.vfs.synth.sysfs import SysTree
from husk.vfs.vfs import Vfs

MOST_LINKS = 8  # that are followed to tell what is missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.changed_names import ChangedNames
    from husk.kernel.tasks import LiveRuns
    from husk.native._core import HostStat
    from husk.sandbox.image_source import ImageSource
    from husk.sandbox.kept.box_content import BoxContent
    from husk.sandbox.mount_guards import MountRoot, OwnPlaces
    from husk.sandbox.policy import Mount, Policy
    from husk.vfs.host.host_tree import HostTree
    from husk.vfs.node import Node, Tree
    from husk.walls.ids import Ids


class Files:
    """The vfs of a box and what made it."""

    __slots__ = ("creds", "held", "layers", "proc", "tasks", "terminals", "vfs")

    def __init__(
        self,
        vfs: Vfs,
        creds: Credentials,
        layers: list[tuple[bytes, LayeredTree]],
        terminals: PtsTree,
        proc: ProcTree,
        tasks: TasksHere,
    ) -> None:
        self.tasks = tasks
        self.held: list[int] = []  # descriptors of the host files that rules name (mount_guards)
        self.vfs, self.creds, self.layers, self.terminals, self.proc = vfs, creds, layers, terminals, proc

    def run_over(self, reaper: int) -> None:
        """One of several runs has ended."""
        with self.vfs.lock:
            self.proc.forget_run(reaper)

    def close(self) -> None:
        """Close every descriptor. The box is over."""
        for tree in self.vfs.newest_first():
            tree.close()
        while self.held:
            os.close(self.held.pop())
        self.vfs.state.close()

    def changes(self) -> list[tuple[str, str]]:
        found = []
        with self.vfs.lock:
            for where, tree in self.layers:
                found += [(change, os.fsdecode(where.rstrip(b"/") + path)) for change, path in tree.changes()]
        return sorted(found, key=lambda item: item[1])

    def changes_of_run(self, changed: ChangedNames) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """In the box, and on the host through `rw` mounts."""
        if changed.nothing:
            return [], []
        differing = {os.fsencode(path): change for change, path in self.changes()}
        in_box, on_host = changed.of_run(differing, self._modified)
        return _listed(in_box), _listed(on_host)

    def _modified(self, path: bytes) -> int | None:
        try:
            return self.vfs.stat(ROOT_CONTEXT, self.vfs.root, path, follow=False).mtime
        except OSError:
            return None


def _listed(changes: dict[bytes, str]) -> list[tuple[str, str]]:
    return [(change, os.fsdecode(path)) for path, change in sorted(changes.items())]


def build(
    policy: Policy,
    state_path: bytes,
    ids: Ids,
    live: LiveRuns,
    source: ImageSource | None = None,
    kept: BoxContent | None = None,
    *,
    remember: bool = False,
    bare: bool = False,
) -> Files:
    """`remember`: keep what host files were when the guest first changed them, for `apply`. `bare`: only what does not
    depend on the mounts; `furnish` does the rest."""
    groups = frozenset() if ids.switch else frozenset(os.getgroups())
    # In an image, user 0 is root over the box's own files, as programs that install or unpack something expect.
    root_of_image = source is not None and not source.on_host and ids.uid == 0
    creds = Credentials(ids.uid, ids.gid, groups, over_files=policy.over_files or root_of_image)
    state = State(state_path)
    try:
        if kept is not None:
            state.continue_from(kept.record.number)
        image = _root_image(policy, state, creds, ids, source)
    except BaseException:
        state.close()  # a server makes many boxes, and a failure must not leak descriptors
        raise
    vfs = Vfs(state, image, creds, live)
    tasks = TasksHere(vfs)
    # A box has only sessions and terminals of its own, so the guest may see what the host says of them.
    proc = ProcTree(
        lambda: tasks.here,
        vfs.mounts,
        creds,
        dev=state.new_device(),
        guest_file=vfs.file_of_link,
        watched_file=state.watched_file,
        allow_tty=True,
    )
    terminals = PtsTree(creds, dev=state.new_device())
    files = Files(vfs, creds, [(b"/", image)], terminals, proc, tasks)
    try:
        if policy.limits["disk"] is not None:
            _write_generated(image)  # what husk itself writes is to be there before it is measured
        vfs.mount(proc, b"/proc")
        dev = DevTree(terminals, dev=state.new_device())
        for passed in policy.devices:
            if passed.guest:
                dev.add_device(os.fsencode(passed.guest), os.fsencode(passed.host), passed.rdev)
        vfs.mount(dev, b"/dev")
        vfs.mount(terminals, b"/dev/pts")
        # shm_open(3) of older C libraries takes nothing but tmpfs for /dev/shm.
        vfs.mount(LayeredTree(state, mode=0o1777, fstype=b"tmpfs", boxed=True), b"/dev/shm")
        vfs.mount(SysTree(dev=state.new_device()), b"/sys")
        if bare:
            image.seal()
        else:
            furnish(files, policy, ids, source, kept, remember=remember)
    except BaseException:
        files.close()
        raise
    return files


def _root_image(policy: Policy, state: State, creds: Credentials, ids: Ids, source: ImageSource | None) -> LayeredTree:
    """The tree at the root: the host's own programs, or an image of the store."""
    generated = etc_files(creds, USER.encode(), HOME.encode(), b"husk", _resolver(policy))
    if source is None or source.on_host:
        uids, gids = (overflow_map(ids.uid), overflow_map(ids.gid)) if ids.switch else (None, None)
        return default_image(state, creds, generated, USER.encode(), uids, gids)
    from husk.vfs.image.store_image import store_image

    # Without a user namespace the guest cannot have the image's uid; files of that uid show as the guest's.
    owner = (source.uid, source.gid)
    return store_image(state, creds, source.store, source.manifest, owner, generated)


def _write_generated(image: LayeredTree) -> None:
    etc = image.lookup(None, image.root, b"etc")
    for node in list(etc.names.values()) if isinstance(etc, LayerDir) else ():
        if isinstance(node, Inode) and node.source is not None and node.source[0].in_memory:
            image.copy_up.content(node, empty=False)


def furnish(
    files: Files,
    policy: Policy,
    ids: Ids,
    source: ImageSource | None = None,
    kept: BoxContent | None = None,
    *,
    remember: bool = False,
) -> None:
    """Add the mounts, and lay over them what the box begins with. From then on the guest's own names count."""
    image = files.layers[0][1]
    if policy.mounts:
        _mount_all(files, policy, ids)
        with files.vfs.lock:
            files.vfs.state.invalidation.announce(files.layers[0][1].root, True)  # names may be taught by now
    if image.sealed_root is None:
        image.seal()
    elif policy.mounts:  # what the caller mounted is no change of the guest's
        image.seal(_mounted_below(image, policy.mounts))
    if source is not None and source.on_host:
        from husk.vfs.image.store_image import lay_over_host

        as_start = kept is None or not kept.whole
        lay_over_host(image, source.store, source.manifest, source.owner, files.creds, as_start=as_start)
    if kept is not None or remember:
        for _, tree in files.layers[1:]:
            if tree.root.lower is not None:
                tree.root.lower.keep_baseline()
    if kept is not None:
        kept.lay_over(files.layers, files.creds)
    if policy.limits["disk-files"] is not None:
        files.vfs.state.limit_nodes(policy.limits["disk-files"])


def _mounted_below(image: LayeredTree, mounts: list[Mount]) -> set[bytes] | None:
    """The names of the root that lie above the mounts. None: a symbolic link may lead elsewhere."""
    found = set()
    for mount in mounts:
        names = os.fsencode(mount.target).strip(b"/").split(b"/")
        found.add(names[0])
        here: Node | None = image.root
        while names and isinstance(here, LayerDir):
            here = here.names.get(names.pop(0))
        if isinstance(here, Inode) and here.kind == st.S_IFLNK:
            return None
    return found


def _mount_all(files: Files, policy: Policy, ids: Ids) -> None:
    from husk.sandbox.mount_guards import OwnPlaces, guard_mounts
    from husk.store.layout import default_place

    state = files.vfs.state
    own = OwnPlaces(os.fsdecode(os.path.dirname(state.path)), policy.store or default_place())
    roots: list[MountRoot] = []
    image = files.layers[0][1]
    image.date_by(now())
    for number, mount in enumerate(policy.mounts, 1):
        if mount.mode == "image":
            _mount_image(files, state, mount, policy.store, number)
        else:
            _mount(files, state, mount, ids, own, roots)
    image.date_by(0)
    rules = []
    if roots and (policy.rules or policy.default_rules):
        from husk.sandbox.rules.mount_rules import rules_of

        rules = rules_of(policy.rules, default=policy.default_rules)
    files.held = guard_mounts(files.vfs, image, roots, own, rules)


def _mount(
    files: Files,
    state: State,
    mount: Mount,
    ids: Ids,
    own: OwnPlaces,
    roots: list[MountRoot],
) -> None:
    from husk.sandbox.mount_guards import MountRoot, check_source

    source, target = os.fsencode(mount.source), os.fsencode(mount.target)
    try:
        check_source(mount, own)
        found = os.lstat(source)
        if st.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))  # it was none when the mount was read
        uids, gids, owner = _owners(found, ids)
        if not st.S_ISDIR(found.st_mode):
            _mount_file(files, mount, found, uids, gids)
            return
        if mount.mode == "cow":
            layer = LayeredTree(state)
            try:
                lower = layer.show(layer.root, source, uids=uids, gids=gids)
            except BaseException:
                layer.close()
                raise
            _mount_tree(files, layer, target, lambda: _must_be(found, lower.stat(b"")))
            files.layers.append((target, layer))
            roots.append(MountRoot(mount, lower, owner))
        else:
            tree = _host_tree(state, source, uids, gids, owner, writable=mount.mode == "rw")
            _mount_tree(files, tree, target, lambda: _must_be(found, stat_beneath(tree.fd, b"")))
            roots.append(MountRoot(mount, tree, owner))
    except OSError as error:
        raise HuskError(f"{error.strerror}.", option="mount", value=f"{mount.source}:{mount.target}") from None


def _mount_tree(files: Files, tree: Tree, target: bytes, check: Callable[[], None]) -> None:
    """Closes a tree that cannot be mounted: a server makes many boxes."""
    try:
        check()
        files.vfs.mount(tree, target)
    except BaseException:
        tree.close()
        raise


def _host_tree(
    state: State,
    source: bytes,
    uids: dict[int, int],
    gids: dict[int, int],
    owner: tuple[int, int] | None,
    *,
    writable: bool,
) -> HostTree:
    # Imported here: most boxes have no such mount, and starting one must be quick.
    if writable:
        from husk.vfs.host.host_tree_write import WritableHostTree

        return WritableHostTree(state.new_device(), source, uids=uids, gids=gids, owner=owner)
    from husk.vfs.host.host_tree import HostTree

    return HostTree(state.new_device(), source, uids=uids, gids=gids)


def _mount_image(files: Files, state: State, mount: Mount, place: str, number: int) -> None:
    from husk.store import Store, StoreError
    from husk.vfs.image.image_tree import ImageTree

    try:
        store = Store.open(place or None)
        lease, image = store.lease_image(mount.source)
        try:
            tree = ImageTree(state, store, store.open_manifest(image.flat), number, lease)
        except BaseException:
            lease.close()
            raise
        _mount_tree(files, tree, os.fsencode(mount.target), lambda: None)
    except StoreError as error:
        raise UsageError(f"{error}", option="mount", value=f"{mount.source}:{mount.target}:image") from None
    except OSError as error:
        raise HuskError(f"{error.strerror}.", option="mount", value=f"{mount.source}:{mount.target}:image") from None


def _must_be(found: os.stat_result, now: HostStat) -> None:
    """The owner was read a moment ago, and other users may have changed directories above the mount since."""
    if (found.st_dev, found.st_ino) != (now.dev, now.ino):
        raise OSError(errno.ESTALE, "it was replaced just now; try again")


def _owners(found: os.stat_result, ids: Ids) -> tuple[dict[int, int], dict[int, int], tuple[int, int] | None]:
    """How owners are shown below a mount, and the host owner of what the guest makes there.

    When husk runs as root, the guest has another uid on the host. Below a mount it acts as the owner of what was
    mounted: the owner's files are the guest's, and what the guest makes belongs to the owner, as if the owner had run
    the program. So when root mounts a user's directory, no files of root appear in it, and root's own files there stay
    closed, as do files of the host user whose uid equals the guest's uid inside.
    When an ordinary user runs husk, the host's own ids are right. Only that user's are shown as the guest's, which
    differ where the guest has the ids of an image.
    """
    if not ids.switch:
        return id_map(ids.host_uid, ids.uid), id_map(ids.host_gid, ids.gid), None
    return id_map(found.st_uid, ids.uid), id_map(found.st_gid, ids.gid), (found.st_uid, found.st_gid)


def _mount_file(files: Files, mount: Mount, found: os.stat_result, uids: dict[int, int], gids: dict[int, int]) -> None:
    """Show one host file in the image's own tree. The host's file is never written to."""
    if mount.mode == "rw":
        raise UsageError(
            "a single file can be ro or cow; for rw mount the directory that holds it.",
            option="mount",
            value=mount.source,
        )
    image = files.layers[0][1]
    *folders, name = os.fsencode(mount.target).strip(b"/").split(b"/")
    here = image.root
    for folder in folders:
        try:
            child = image.lookup(None, here, folder)
        except FileNotFoundError:
            child = make_directory_in(image, here, folder)
        if not isinstance(child, LayerDir) or child.mounted is not None:
            raise UsageError(
                f"{mount.target} does not lie in the box's own tree; mount a directory.",
                option="mount",
                value=mount.source,
            )
        here = child
    shown = image.show_file(here, name, os.fsencode(mount.source), writable=mount.mode == "cow", uids=uids, gids=gids)
    _must_be(found, shown)


def working_directory(files: Files, policy: Policy) -> int:
    """A descriptor of the placeholder the first process starts in."""
    try:
        node = files.vfs.walk(Context(files.creds), files.vfs.root, os.fsencode(policy.workdir))
    except OSError as error:
        advice = f"; --mount DIR:{policy.workdir} shows a host directory there" if error.errno == errno.ENOENT else ""
        raise NoWorkdir(f"{error.strerror} in the box{advice}.", policy.workdir, error.errno or 0) from None
    if not isinstance(node, Dir):
        raise NoWorkdir("not a directory in the box.", policy.workdir, errno.ENOTDIR)
    return files.vfs.placeholder_fd(files.vfs.context, node, os.O_PATH | os.O_DIRECTORY)


def find_program(files: Files, policy: Policy) -> bytes:
    """The guest path of the program, searched as execvp searches it."""
    name = policy.executable or policy.argv[0]
    places = [""] if "/" in name else [place or "." for place in policy.environment().get("PATH", "").split(":")]
    ctx, refused = Context(files.creds), ""
    for place in places:
        path = os.path.join(policy.workdir, place, name)
        try:
            node = files.vfs.walk(ctx, files.vfs.root, os.fsencode(path))
            if node.kind != st.S_IFREG:
                raise OSError(errno.ENOEXEC, "not a regular file")
            files.vfs.access_node(ctx, node, os.X_OK)
            return os.fsencode(name if "/" in name else os.path.join(place, name))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                refused = _not_executable(files, os.path.normpath(path), error)
    if refused:
        raise NotExecutable(refused)
    for place in places:
        path = os.path.join(policy.workdir, place, name)
        if target := _missing_target(files, path):
            raise NotFound(f"{name}: in the box this is a link to {target}, which is not there{_mount_of(target)}.")
    raise NotFound(_missing(name, policy.image))


def _not_executable(files: Files, path: str, error: OSError) -> str:
    if _is_dir(files, path):
        return f"{path}: a directory; it cannot be executed in the box."
    if error.errno == errno.EACCES:
        return f"{path}: {error.strerror}; chmod +x it, or start it with its interpreter, as in sh {path}"
    return f"{path}: {error.strerror}; it cannot be executed in the box."


def not_started(files: Files, workdir: str, program: bytes, error: int) -> HuskError:
    """Why the first execve failed, although the program was found."""
    name = os.fsdecode(program)
    if error == errno.ENOENT:
        interpreter = _missing_interpreter(files, os.fsencode(workdir), program)
        if interpreter.endswith("\r"):
            return NotFound(
                f"{name}: its lines end in CR LF, as on Windows, and Linux takes the CR for a part of the interpreter's"
                f" name; remove them: sed -i 's/\\r$//' {os.path.basename(name)}"
            )
        which = f"its interpreter {interpreter}" if interpreter else "what it needs to start"
        return NotFound(f"{name}: {which} is not in the box; mount that too.")
    if error == errno.ENOEXEC:
        return NotExecutable(
            f"{name}: not a program for x86-64 Linux; a script needs a #! line, or run it with its interpreter."
        )
    return NotExecutable(f"{name}: cannot be executed ({os.strerror(error)}).")


def _missing_interpreter(files: Files, workdir: bytes, program: bytes) -> str:
    """The first one that the box lacks: an interpreter may be a script, too, or need a loader. "" where none is found
    out."""
    for _ in range(6):  # Linux follows five
        program = os.fsencode(_interpreter(files, os.path.join(workdir, program)))
        try:
            files.vfs.walk(files.vfs.context, files.vfs.root, os.path.join(workdir, program))
        except OSError:
            return os.fsdecode(program)
    return ""


def _interpreter(files: Files, program: bytes) -> str:
    from husk.kernel.exec.program import BINPRM_BUF_SIZE, elf_interpreter, script_line

    ctx = files.vfs.context
    try:
        node = files.vfs.walk(ctx, files.vfs.root, program)
        fd = node.tree.open(ctx, node, os.O_RDONLY)
        try:
            head = os.pread(fd, BINPRM_BUF_SIZE, 0)
            found = script_line(head)[0] if head[:2] == b"#!" else elf_interpreter(fd, head[:64])
        finally:
            os.close(fd)
    except OSError:
        found = None
    return os.fsdecode(found or b"")


def _resolver(policy: Policy) -> bytes:
    """The text of /etc/resolv.conf: husk's resolver with rules, the host's with the host's network, else none."""
    if policy.net == "host":
        try:
            with open("/etc/resolv.conf", "rb") as file:
                return file.read(65536)
        except OSError:
            return b""
    if policy.allow_net or policy.allow_http:
        return b"nameserver 127.0.0.53\n"
    from husk.kernel.net import NO_RESOLVER

    return f"# This box has no network, and nothing answers there:\nnameserver {NO_RESOLVER}\n".encode()


def _is_dir(files: Files, path: str) -> bool:
    try:
        return isinstance(files.vfs.walk(files.vfs.context, files.vfs.root, os.fsencode(path)), Dir)
    except OSError:
        return False


def _missing_target(files: Files, path: str) -> str:
    """Where a chain of links ends in nothing, as that of a venv's python may; "" if `path` is no such link."""
    ctx, at = files.vfs.context, path
    for _ in range(MOST_LINKS):
        try:
            node = files.vfs.walk(ctx, files.vfs.root, os.fsencode(at), follow=False)
            if node.kind != st.S_IFLNK:
                return ""
            at = os.path.join(os.path.dirname(at), os.fsdecode(node.tree.readlink(ctx, node)))
        except OSError:
            return "" if at == path else os.path.normpath(at)
    return ""


def _mount_of(target: str) -> str:
    """The mount that would bring it, with the libraries beside it."""
    if not os.path.exists(target):
        return ""
    folder = os.path.dirname(target)
    above = os.path.dirname(folder)
    if os.path.basename(folder) == "bin" and os.path.isdir(os.path.join(above, "lib")):
        folder = above
    return f"; add --mount {folder}:{folder}:ro"


def _missing(name: str, image: str) -> str:
    if image and "/" not in name:  # a program of the host would miss its libraries there
        return f"{name}: not found in the box; the image {image!r} does not have it."
    on_host = _on_host(name)
    if on_host is None and " " in name:
        import shlex

        return f"{name}: not found in the box; for a line of shell write: sh -c {shlex.quote(name)}"
    if on_host is None:
        return f"{name}: not found in the box."
    folder = os.path.dirname(on_host)
    if "/" in name and not os.path.normpath(name).startswith(("/", "../")):
        return f"{name}: on the host, not in the box; --mount .:{WORKDIR}:cow shows this directory there."
    advice = f"add --mount {folder}:{folder}:ro and call it {on_host}"
    return f"{name}: not found in the box, but the host has {on_host}; {advice}."


def _on_host(name: str) -> str | None:
    if "/" in name:
        path = os.path.abspath(name)
        return path if os.path.exists(path) else None
    for folder in os.environ.get("PATH", "").split(":"):
        path = os.path.join(folder or ".", name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return os.path.abspath(path)
    return None
