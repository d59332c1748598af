"""vfs: an image of the store as the root of a box — its own tree, and the few names every box has.

The counterpart of `image`, which makes the default root from the host's own programs.
"""

from __future__ import annotations

from husk.vfs.image.default_image import make_directory, make_file
from husk.vfs.image.image_lower import ImageLower
from husk.vfs.layer.layered_tree import LayeredTree
from husk.vfs.node import Context, Credentials, Dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.store import Manifest, Store
    from husk.vfs.state import State

# Mount points and private places, made where the image has none.
PLACES = ((b"proc", 0o555), (b"sys", 0o555), (b"dev", 0o755), (b"tmp", 0o1777), (b"run", 0o755), (b"etc", 0o755))
# How names and hosts are looked up is the box's business, whatever the image says; its accounts are its own.
ETC = (b"hosts", b"hostname", b"resolv.conf")

_ROOT = Context(Credentials(0, 0))


def store_image(
    state: State,
    creds: Credentials,
    store: Store,
    manifest: Manifest,
    owner: tuple[int, int],
    etc_files: dict[bytes, bytes],
) -> LayeredTree:
    """`owner` is whom the image runs as; what is the owner's is the guest's, if they are not the same."""
    tree = LayeredTree(state)
    lower = ImageLower(store, manifest, state.path + b"/images/0", 0)
    if owner != (creds.uid, creds.gid):
        lower.uids, lower.gids = {owner[0]: creds.uid}, {owner[1]: creds.gid}
    tree.show_lower(tree.root, lower)
    for name, mode in PLACES:
        if not _has_directory(tree, name):
            make_directory(tree, name, mode)
    for name in ETC:
        if name in etc_files:
            _replace(tree, b"etc/" + name, etc_files[name])
    if not _has(tree, b"etc/passwd"):
        for name in (b"passwd", b"group"):
            _replace(tree, b"etc/" + name, etc_files[name])
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
    """A layer that was made on the default root, laid over `tree`, which is one. `owner` was the guest then.
    Without `as_start` all of it counts as changed."""
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
        tree.unlink(_ROOT, folder, name)
    make_file(tree, path, content)
