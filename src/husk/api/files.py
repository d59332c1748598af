"""api: the box's files for the application, as the guest would see them: same names, same owner, same permissions."""

from __future__ import annotations

import errno
import os
import posixpath
import stat as st
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, overload

from husk.vfs.layer.content_copy import copy_content
from husk.vfs.node import Context, Dir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from husk.api.tree_copy import Copied
    from husk.sandbox.filesystem import Files as Mounted
    from husk.vfs.node import Stat

Name = str | os.PathLike[str]


class BoxFiles:
    """A mixin: `_mounted` gives the file system, and keeps the box from being closed meanwhile."""

    def _mounted(self) -> AbstractContextManager[Mounted]:
        raise NotImplementedError

    def _writing(self) -> AbstractContextManager[None]:
        """To be held while a file is changed without `_mounted`."""
        raise NotImplementedError

    def _start(self) -> str:
        raise NotImplementedError

    @overload
    def read(self, path: Name, *, text: Literal[False] = False, offset: int = 0, size: int = -1) -> bytes: ...
    @overload
    def read(self, path: Name, *, text: Literal[True], offset: int = 0, size: int = -1) -> str: ...
    def read(self, path: Name, *, text: bool = False, offset: int = 0, size: int = -1) -> bytes | str:
        """The content of a file, or `size` bytes of it from `offset` on: a guest may have made it larger than memory. A
        relative name begins in the box's working directory. OSError as for the guest."""
        with os.fdopen(self._open_file(path, os.O_RDONLY), "rb") as file:
            if offset:
                file.seek(offset)
            data = file.read(size)
        return data.decode() if text else data

    def copy_in(self, source: Name, path: Name = ".") -> Copied:
        """Copy a file of the host, or a directory with all that is in it, into the box. A directory's content goes
        into `path`, which is made if it is not there; a file becomes `path`, or goes into it if that is a directory.
        Mode bits and times of files stay. Links are copied, not followed; devices, sockets and FIFOs are left."""
        from husk.api.tree_copy import copy_into

        return copy_into(self, source, path)

    @overload
    def copy_out(self, path: Name, target: Name, *, links: bool = False) -> Copied: ...
    @overload
    def copy_out(self, path: Name, target: int) -> None: ...
    def copy_out(self, path: Name, target: Name | int, *, links: bool = False) -> Copied | None:
        """Copy a file of the box, or a directory with all that is in it, to the host. A directory's content goes into
        `target`, which is made if it is not there; a file becomes `target`, or goes into it if that is a directory.
        Existing files are replaced. Links are left unless `links` wants them: on the host they would lead anywhere.

        If `target` is the descriptor of an empty file, the content of a file is written to it."""
        if not isinstance(target, int):
            from husk.api.tree_copy import copy_from

            return copy_from(self, path, target, links=links)
        # Holes stay holes: a guest can make a file of a terabyte that takes no room.
        source = self._open_file(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            copy_content(source, target)
        finally:
            os.close(source)
        return None

    def write(self, path: Name, data: str | bytes, *, parents: bool = True, append: bool = False) -> None:
        """Make or replace a file, and the directories above it unless `parents` is false."""
        if parents:
            self.mkdir(posixpath.dirname(self._absolute(path)), exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
        with self._writing(), os.fdopen(self._open_file(path, flags), "ab" if append else "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)

    def mkdir(self, path: Name, *, exist_ok: bool = False) -> None:
        """Make a directory, and those above it where they are missing."""
        here = ""
        words = [word for word in self._absolute(path).split("/") if word]
        for number, word in enumerate(words, 1):
            here += "/" + word
            try:
                with self._mounted() as files:
                    files.vfs.mkdir(Context(files.creds), files.vfs.root, os.fsencode(here), 0o777)
            except OSError as error:
                # An existing directory need not be made, and may lie where none can be made: on a read-only mount.
                if not self.exists(here) or (number == len(words) and not exist_ok):
                    raise _named(error, here) from None

    def symlink(self, target: Name, path: Name, *, replace: bool = False) -> None:
        """Make a symbolic link that leads to `target`. `replace`: a file that has the name is removed first."""
        where = self._absolute(path)
        try:
            with self._mounted() as files:
                ctx, root, name = Context(files.creds), files.vfs.root, os.fsencode(where)
                if replace:
                    try:
                        files.vfs.unlink(ctx, root, name)
                    except FileNotFoundError:
                        pass
                files.vfs.symlink(ctx, os.fsencode(target), root, name)
        except OSError as error:
            raise _named(error, where) from None

    def readlink(self, path: Name) -> str:
        """Where a symbolic link leads."""
        where = self._absolute(path)
        try:
            with self._mounted() as files:
                return os.fsdecode(files.vfs.readlink(Context(files.creds), files.vfs.root, os.fsencode(where)))
        except OSError as error:
            raise _named(error, where) from None

    def remove(self, path: Name, *, recursive: bool = False, missing_ok: bool = False) -> None:
        """Remove a file, a link or an empty directory; with `recursive` a directory with all that is in it. Links are
        not followed. `missing_ok`: it need not be there."""
        where = self._absolute(path)
        folders = [where]
        try:
            while folders:
                here = folders[-1]
                below = [] if not recursive else [
                    posixpath.join(here, name)
                    for name in (self.listdir(here) if st.S_ISDIR(self.stat(here, follow=False).mode) else ())
                ]  # fmt: skip
                if below:
                    folders += below
                    continue
                self._remove_one(here)
                folders.pop()
        except FileNotFoundError:
            if not missing_ok or self._is_there(where):
                raise

    def _remove_one(self, where: str) -> None:
        try:
            with self._mounted() as files:
                ctx, root, name = Context(files.creds), files.vfs.root, os.fsencode(where)
                is_dir = st.S_ISDIR(files.vfs.stat(ctx, root, name, False).mode)
                (files.vfs.rmdir if is_dir else files.vfs.unlink)(ctx, root, name)
        except OSError as error:
            raise _named(error, where) from None

    def _is_there(self, where: str) -> bool:
        try:
            self.stat(where, follow=False)
        except FileNotFoundError:
            return False
        return True

    def listdir(self, path: Name = ".") -> list[str]:
        """The names in a directory, sorted."""
        os.close(self._open_file(path, os.O_RDONLY | os.O_DIRECTORY))  # EACCES where the guest may not read it
        with self._mounted() as files:
            ctx = Context(files.creds)
            node = files.vfs.walk(ctx, files.vfs.root, os.fsencode(self._absolute(path)))
            assert isinstance(node, Dir)
            with files.vfs.lock:
                names = [entry.name for entry in node.tree.entries(ctx, node, 0)]
        return sorted(os.fsdecode(name) for name in names if name not in (b".", b".."))

    def stat(self, path: Name, *, follow: bool = True) -> Stat:
        """Mode, size, owner and times as the guest would see them. Without `follow`, of a link itself."""
        where = self._absolute(path)
        try:
            with self._mounted() as files:
                return files.vfs.stat(Context(files.creds), files.vfs.root, os.fsencode(where), follow)
        except OSError as error:
            raise _named(error, where) from None

    def exists(self, path: Name) -> bool:
        """Whether the guest would find it. A link that leads nowhere does not exist, as for os.path.exists."""
        with self._mounted() as files:
            try:
                files.vfs.walk(Context(files.creds), files.vfs.root, os.fsencode(self._absolute(path)))
            except OSError:
                return False
        return True

    def _absolute(self, path: Name) -> str:
        return posixpath.join(self._start(), os.fspath(path))

    def _open_file(self, path: Name, flags: int) -> int:
        where = self._absolute(path)
        flags |= os.O_NONBLOCK  # a FIFO must not make the application wait
        try:
            with self._mounted() as files:
                opened = files.vfs.open(Context(files.creds), files.vfs.root, os.fsencode(where), flags, 0o666)
        except OSError as error:
            raise _named(error, where) from None
        if opened.node.kind not in (st.S_IFREG, st.S_IFDIR):
            os.close(opened.host_fd)
            raise OSError(errno.EINVAL, "not a regular file", where)
        if flags & os.O_ACCMODE == os.O_RDONLY and opened.node.kind == st.S_IFDIR and not flags & os.O_DIRECTORY:
            os.close(opened.host_fd)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), where)
        return opened.host_fd


class FilesOf(BoxFiles):
    """The files of a box whose run is over and which its owner has not closed yet."""

    def __init__(self, files: Mounted) -> None:
        self._files = files

    @contextmanager
    def _mounted(self) -> Iterator[Mounted]:
        yield self._files

    def _start(self) -> str:
        return "/"


def _named(error: OSError, path: str) -> OSError:
    return OSError(error.errno, error.strerror, path)
