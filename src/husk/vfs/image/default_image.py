"""vfs: the default image — the host's programs and libraries, a curated /etc, and private directories for the guest.

Only what is listed here exists inside a box. Nothing is copied: host directories show through a copy-on-write layer.
"""

from __future__ import annotations

import os
import stat as st

from husk.native.real_paths import real_path
from husk.vfs.clock import now
from husk.vfs.layer.inodes import LayerDir
from husk.vfs.layer.layered_tree import LayeredTree
from husk.vfs.node import ROOT_CONTEXT, Context, Credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.state import State

    Ids = dict[int, int] | None

PROGRAMS = (b"usr", b"bin", b"sbin", b"lib", b"lib32", b"lib64", b"libx32")

# Names of the host's /etc that programs need to run and that say nothing about the host's users, network or secrets.
ETC = frozenset(
    b"""
    alpine-release alternatives arch-release bash.bashrc bash_completion ca-certificates ca-certificates.conf
    chromium.d crypto-policies debian_version default emacs environment ethertypes fonts gai.conf ghostscript glvnd
    gnutls gprofng.rc gtk-2.0 gtk-3.0 gtk-4.0 host.conf ImageMagick-6 ImageMagick-7 inputrc issue
    ld-musl-x86_64.path ld.so.cache ld.so.conf ld.so.conf.d libreoffice locale.alias locale.conf locale.gen localtime
    lsb-release lynx magic magic.mime mailcap manpath.config maven mime.types mke2fs.conf nanorc netconfig networks
    openal OpenCL os-release papersize perl pki profile profile.d protocols pulse R redhat-release rpc sensors3.conf
    services sgml shells skel ssl system-release terminfo texmf timezone vdpau_wrapper.cfg vim vulkan wgetrc X11
    xattr.conf xdg xml
""".split()
)
ETC_FAMILIES = (b"java", b"python", b"php", b"ruby", b"lua", b"ld-musl-")
# Directories of which only a part shows.
ETC_PARTS = {
    b"chromium.d": frozenset((b"README", b"default-flags", b"dev-shm", b"extensions")),  # and not its API keys
    b"default": frozenset((b"locale",)),
    b"ssl": frozenset((b"cert.pem", b"certs", b"ct_log_list.cnf", b"openssl.cnf")),
}

# The font cache: without it a browser or an office program searches all fonts of /usr for a second.
CACHES = (b"var/cache/fontconfig",)

# path, mode; all owned by root
SKELETON = (
    (b"dev", 0o755),
    (b"proc", 0o555),
    (b"sys", 0o555),
    (b"tmp", 0o1777),
    (b"home", 0o755),
    (b"root", 0o755),
    (b"run", 0o755),
    (b"run/lock", 0o1777),
    (b"opt", 0o755),
    (b"srv", 0o755),
    (b"mnt", 0o755),
    (b"media", 0o755),
    (b"var", 0o755),
    (b"var/tmp", 0o1777),
    (b"var/lib", 0o755),
    (b"var/cache", 0o755),
    (b"var/log", 0o755),
    (b"var/spool", 0o755),
)


def default_image(
    state: State,
    creds: Credentials,
    etc_files: dict[bytes, bytes],
    user: bytes = b"guest",
    uids: dict[int, int] | None = None,
    gids: dict[int, int] | None = None,
) -> LayeredTree:
    """`etc_files` are contents of generated files in /etc by name; `user` names the guest's home; `uids` and `gids` map
    owners on the host to the guest's."""
    tree = LayeredTree(state)
    tree.date_by(now())
    try:
        for name in PROGRAMS:
            _program_directory(tree, name, uids, gids)
        for path, mode in SKELETON:
            make_directory(tree, path, mode)
        for path in CACHES:
            _program_directory(tree, path, uids, gids)
        make_symlink(tree, b"var/run", b"/run")
        make_symlink(tree, b"var/lock", b"/run/lock")
        _etc(tree, etc_files, uids, gids)
        make_directory(tree, b"home/" + user, 0o700, creds.uid, creds.gid)
        make_directory(tree, b"workspace", 0o755, creds.uid, creds.gid)
    except BaseException:
        tree.close()
        raise
    tree.date_by(0)
    return tree


def host_sources() -> list[object]:
    """What an image is made from. While it is the same, a new image would be the same: what is in / and /etc, and which
    directories show. What they hold is never copied."""
    found: list[object] = []
    for path in (b"/", real_path(b"/etc")):
        seen = os.lstat(path)
        found.append((seen.st_dev, seen.st_ino, seen.st_mtime_ns))
    for name in (*PROGRAMS, *CACHES):
        try:
            seen = os.lstat(b"/" + name)
            found.append((seen.st_dev, seen.st_ino, seen.st_mode))
        except OSError as error:
            found.append(error.errno)
    return found


def _program_directory(tree: LayeredTree, name: bytes, uids: Ids, gids: Ids) -> None:
    host = b"/" + name
    try:
        mode = os.lstat(host).st_mode
    except FileNotFoundError:
        return
    if st.S_ISLNK(mode):
        make_symlink(tree, name, os.readlink(host))
    elif st.S_ISDIR(mode):
        tree.show(make_directory(tree, name, 0o755), host, uids=uids, gids=gids)


def _etc(tree: LayeredTree, files: dict[bytes, bytes], uids: Ids, gids: Ids) -> None:
    etc = make_directory(tree, b"etc", 0o755)
    present = [os.fsencode(name) for name in os.listdir("/etc")]
    shown = frozenset(name for name in present if name in ETC or name.startswith(ETC_FAMILIES)) - files.keys()
    tree.show(etc, real_path(b"/etc"), only=shown, uids=uids, gids=gids)
    for name, parts in ETC_PARTS.items():
        if name in shown:
            node = tree.lookup(None, etc, name)
            if isinstance(node, LayerDir):
                node.only = parts
    for path, content in files.items():
        make_file(tree, b"etc/" + path, content)


def _parent(tree: LayeredTree, path: bytes) -> tuple[LayerDir, bytes]:
    here = tree.root
    *heads, last = path.split(b"/")
    for name in heads:
        node = tree.lookup(None, here, name)
        assert isinstance(node, LayerDir)
        here = node
    return here, last


def make_directory(tree: LayeredTree, path: bytes, mode: int, uid: int = 0, gid: int = 0) -> LayerDir:
    parent, name = _parent(tree, path)
    directory = tree.mkdir(Context(Credentials(uid, gid)), parent, name, mode)
    return directory


def make_directory_in(tree: LayeredTree, parent: LayerDir, name: bytes) -> LayerDir:
    return tree.mkdir(ROOT_CONTEXT, parent, name, 0o755)


def make_symlink(tree: LayeredTree, path: bytes, target: bytes) -> None:
    parent, name = _parent(tree, path)
    tree.symlink(ROOT_CONTEXT, parent, name, target)


def make_file(tree: LayeredTree, path: bytes, content: bytes, mode: int = 0o644) -> None:
    parent, name = _parent(tree, path)
    tree.generate(parent, name, mode, content)
