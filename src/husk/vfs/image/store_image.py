"""vfs: an image of the store as the root of a box — its own tree, and the few names every box has.

The counterpart of `default_image`, which makes the default root from the host's own programs.
"""

from __future__ import annotations

from husk.vfs.image.default_image import make_directory, make_file
from husk.vfs.image.image_lower import ImageLower
from husk.vfs.layer.layered_tree import LayeredTree
from husk.vfs.node import ROOT_CONTEXT, Dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.store import Manifest, Store
    from husk.vfs.node import Credentials
    from husk.vfs.state import State

# Mount points and private directories, made where the image has none.
DIRECTORIES = ((b"proc", 0o555), (b"sys", 0o555), (b"dev", 0o755), (b"tmp", 0o1777), (b"run", 0o755), (b"etc", 0o755))
# The box decides how hosts are looked up, whatever the image says; accounts are the image's.
ETC = (b"hosts", b"hostname", b"resolv.conf")


def store_image(
    state: State,
    creds: Credentials,
    store: Store,
    manifest: Manifest,
    owner: tuple[int, int],
    etc_files: dict[bytes, bytes],
) -> LayeredTree:
    """`owner` is the uid and gid the image runs as. Where the guest has others, files of these show as the guest's."""
    tree = LayeredTree(state, boxed=True)
    uids, gids = ({}, {}) if owner == (creds.uid, creds.gid) else ({owner[0]: creds.uid}, {owner[1]: creds.gid})
    tree.show_lower(tree.root, ImageLower(store, manifest, state.path + b"/images/0", 0, uids, gids))
    try:
        for name, mode in DIRECTORIES:
            if not _has_directory(tree, name):
                make_directory(tree, name, mode)
        for name in ETC:
            if name in etc_files:
                _replace(tree, b"etc/" + name, etc_files[name])
        if not _has(tree, b"etc/passwd"):
            for name in (b"passwd", b"group"):
                _replace(tree, b"etc/" + name, etc_files[name])
    except BaseException:
        tree.close()
        raise
    return tree


def lay_over_host(
    tree: LayeredTree,
    store: Store,
    manifest: Manifest,
    owner: tuple[int, int],
    creds: Credentials,
    *,
    as_start: bool,
) -> None:
    """Lay a layer that was made on the default root over `tree`, which is a default root. `owner` was the guest's uid
    and gid then. Without `as_start` all of it counts as changed."""
    from husk.vfs.layer.overlay import Overlay

    lower = ImageLower(store, manifest, tree.state.path + b"/images/0", 0)
    tree.lowers.append(lower)
    uids, gids = {owner[0]: creds.uid}, {owner[1]: creds.gid}
    Overlay(
        tree, manifest, lambda entry: (lower, entry.path), uids=uids, gids=gids, plain=True, as_start=as_start
    ).lay()


def _has(tree: LayeredTree, path: bytes) -> bool:
    here: object = tree.root
    for name in path.split(b"/"):
        if not isinstance(here, Dir):
            return False
        try:
            here = tree.lookup(None, here, name)
        except OSError:
            return False
    return True


def _has_directory(tree: LayeredTree, name: bytes) -> bool:
    try:
        return isinstance(tree.lookup(None, tree.root, name), Dir)
    except FileNotFoundError:
        return False


def _replace(tree: LayeredTree, path: bytes, content: bytes) -> None:
    head, _, name = path.rpartition(b"/")
    folder = tree.lookup(None, tree.root, head)
    if not isinstance(folder, Dir):
        return
    if _has(tree, path):
        tree.unlink(ROOT_CONTEXT, folder, name)
    make_file(tree, path, content)
