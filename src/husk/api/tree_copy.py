"""api: copy files and whole directories between the host and a box.

No link is followed, on either side: each directory is opened from the one above it. A guest may be changing its tree
meanwhile, or even the host's, through an `rw` mount; and a link that an earlier copy brought to the host must not lead
a later one elsewhere. What a guest made goes to the host without set-id bits.
"""

from __future__ import annotations

import errno
import os
import stat as st
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from husk.vfs.layer.content_copy import copy_content
from husk.vfs.node import Context

if TYPE_CHECKING:
    from husk.api.files import BoxFiles, Name

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {st.S_IFLNK: "a link", st.S_IFIFO: "a FIFO", st.S_IFSOCK: "a socket"}


@dataclass(frozen=True)
class Copied:
    """`files` were copied: files, and links if they were wanted, by their names below the directory. `left`: what was
    not, and why."""

    files: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def copy_into(box: BoxFiles, source: Name, path: Name) -> Copied:
    """From the host. Links are copied as they are: in the box they lead to names of the box."""
    done, source = Copied(), os.fspath(source)
    mode = os.stat(source).st_mode  # of the name itself a link is followed: it is the caller's
    if not st.S_ISDIR(mode):
        target = os.path.join(os.fspath(path), os.path.basename(source)) if _is_dir(box, path) else os.fspath(path)
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            _file_into(box, fd, target)
        finally:
            os.close(fd)
        done.files.append(os.path.basename(source))
        return done
    top = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        folders = [""]
        while folders:
            folders += _folder_into(box, top, folders.pop(), os.fspath(path), done)
    finally:
        os.close(top)
    done.files.sort()
    return done


def _folder_into(box: BoxFiles, top: int, folder: str, path: str, done: Copied) -> list[str]:
    """One directory without those in it, which are returned."""
    found = []
    with _below(top, folder, make=False) as here:
        box.mkdir(os.path.join(path, folder), exist_ok=True)
        for entry in sorted(os.listdir(here)):
            name, info = os.path.join(folder, entry), os.stat(entry, dir_fd=here, follow_symlinks=False)
            place = os.path.join(path, name)
            if st.S_ISDIR(info.st_mode):
                found.append(name)
                continue
            if st.S_ISLNK(info.st_mode):
                box.symlink(os.readlink(entry, dir_fd=here), place, replace=True)
            elif st.S_ISREG(info.st_mode):
                fd = os.open(entry, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=here)
                try:
                    _file_into(box, fd, place)
                finally:
                    os.close(fd)
            else:
                done.left.append(f"{name}: {_KINDS.get(st.S_IFMT(info.st_mode), 'a device')}")
                continue
            done.files.append(name)
    return found


def _file_into(box: BoxFiles, source: int, path: str) -> None:
    info = os.fstat(source)
    if not st.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    box.mkdir(os.path.dirname(os.path.join(box._start(), path)), exist_ok=True)
    with box._writing():
        target = box._open_file(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            copy_content(source, target)
        finally:
            os.close(target)
    with box._mounted() as files:
        ctx = Context(files.creds)
        node = files.vfs.walk(ctx, files.vfs.root, os.fsencode(box._absolute(path)))
        files.vfs.chmod(ctx, node, info.st_mode & 0o777)
        files.vfs.utimens(ctx, node, info.st_atime_ns, info.st_mtime_ns)


def copy_from(box: BoxFiles, path: Name, target: Name, *, links: bool) -> Copied:
    """To the host. A link that a guest made would lead anywhere there, so none is copied unless it is wanted."""
    done, target, path = Copied(), os.fspath(target), os.fspath(path)
    mode = box.stat(path, follow=False).mode
    if not st.S_ISDIR(mode):
        name = os.path.basename(os.path.normpath(path))
        inside = os.path.isdir(target)
        with _below(-1, target if inside else os.path.dirname(target) or ".", make=False) as here:
            _file_from(box, path, here, name if inside else os.path.basename(target))
        done.files.append(name)
        return done
    os.makedirs(target, exist_ok=True)
    top = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        folders = [""]
        while folders:
            folders += _folder_from(box, path, folders.pop(), top, done, links=links)
    finally:
        os.close(top)
    done.files.sort()
    return done


def _folder_from(box: BoxFiles, path: str, folder: str, top: int, done: Copied, *, links: bool) -> list[str]:
    found = []
    with _below(top, folder, make=True) as here:
        for entry in box.listdir(os.path.join(path, folder)):
            name, place = os.path.join(folder, entry), os.path.join(path, folder, entry)
            kind = st.S_IFMT(box.stat(place, follow=False).mode)
            if kind == st.S_IFDIR:
                found.append(name)
            elif kind == st.S_IFREG:
                _file_from(box, place, here, entry)
                done.files.append(name)
            elif kind == st.S_IFLNK and links:
                _put(here, entry, lambda new, place=place: os.symlink(box.readlink(place), new, dir_fd=here))  # type: ignore[misc]
                done.files.append(name)
            else:
                done.left.append(f"{name}: {_KINDS.get(kind, 'a device')}")
    return found


def _file_from(box: BoxFiles, path: str, here: int, name: str) -> None:
    info = box.stat(path, follow=False)

    def write(new: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(new, flags, st.S_IMODE(info.mode) & 0o777, dir_fd=here)
        try:
            box.copy_out(path, fd)
            os.utime(fd, ns=(info.atime, info.mtime))
        finally:
            os.close(fd)

    _put(here, name, write)


def _put(here: int, name: str, make: Callable[[str], None]) -> None:
    """Make it under another name first: what had the name is replaced as a whole, and never written through."""
    new = f".husk-{os.urandom(6).hex()}"
    try:
        make(new)
        os.replace(new, name, src_dir_fd=here, dst_dir_fd=here)
    except BaseException:
        try:
            os.unlink(new, dir_fd=here)
        except FileNotFoundError:
            pass
        raise


def _is_dir(box: BoxFiles, path: Name) -> bool:
    return box.exists(path) and st.S_ISDIR(box.stat(path).mode)


@contextmanager
def _below(top: int, folder: str, *, make: bool) -> Iterator[int]:
    """A descriptor of `folder` below `top`, reached without links. Without a `top` (-1) the folder is the caller's."""
    if top < 0:
        here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    else:
        here = os.dup(top)
    try:
        for part in folder.split("/") if folder and top >= 0 else ():
            if make:
                try:
                    os.mkdir(part, dir_fd=here)
                except FileExistsError:
                    pass
            deeper = os.open(part, _DIRECTORY, dir_fd=here)
            os.close(here)
            here = deeper
        yield here
    finally:
        os.close(here)


__all__ = ["Copied"]
