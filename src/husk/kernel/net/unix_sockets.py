"""kernel: Unix sockets with a name: the host binds them under a name of husk's, and husk maps it to the guest's.

The host reports a socket's address as the text of its bind. So husk binds every socket under a number in a directory of
its choice, then links the file to its place in the tree. The text leads back to the guest's name. Abstract names belong
to the network namespace. In a box without its own network namespace they are mapped to numbers, too.
"""

from __future__ import annotations

import _socket
import errno
import os

from husk.native._core import bind_address, get_option

SOL_SOCKET, SO_NETNS_COOKIE = 1, 71
MOST_NAMES = 65536
AUTOBIND_NAMES = 1 << 20  # Linux, too, draws five hexadecimal digits


class UnixSockets:
    """Names of bound sockets, by host address. The oldest are forgotten: such a socket shows an empty name."""

    __slots__ = ("_abstract", "_guest_names", "_host_netns", "_last", "_own_abstract", "_secret")

    def __init__(self, *, own_abstract_names: bool) -> None:
        self._own_abstract = own_abstract_names
        self._host_netns: bytes | None = None  # cookie of husk's own network namespace, read on first use
        self._guest_names: dict[bytes, bytes] = {}  # host text -> guest text, both as in sun_path
        self._abstract: dict[bytes, bytes] = {}  # guest text -> host text; only without a network namespace
        self._secret = b"" if own_abstract_names else os.urandom(12).hex().encode()
        self._last = 0

    # -- paths -------------------------------------------------------------------------------------------------
    def bind(self, fd: int, guest_name: bytes, directory_fd: int, name: bytes) -> None:
        """Bind the host socket `fd` to `name` in `directory_fd`; `guest_name` is the path as the guest gave it."""
        self._last += 1
        ours = b".husk-s%d" % self._last  # in the same directory: links cannot cross mounts
        text = b"/proc/self/fd/%d/%s\0" % (directory_fd, ours)
        umask = os.umask(0o077)  # of this thread; no other user may connect before the tree has set the mode
        try:
            bind_address(fd, b"\1\0" + text)
        finally:
            os.umask(umask)
        try:
            _publish(directory_fd, ours, name)
        except FileExistsError:
            raise OSError(errno.EADDRINUSE, "the name is taken") from None
        self._remember(text, guest_name + b"\0")

    # -- abstract names ----------------------------------------------------------------------------------------
    def bind_abstract(self, fd: int, guest_text: bytes) -> None:
        """`guest_text` is what follows the family: empty to let the kernel choose, or a NUL and the name."""
        if self._own_abstract:
            self._check_netns(fd)
            bind_address(fd, b"\1\0" + guest_text)
        elif guest_text:
            bind_address(fd, b"\1\0" + self._host_text(guest_text))
        else:
            self._autobind(fd)

    def abstract_address(self, fd: int, guest_text: bytes) -> bytes:
        """The host address of the socket with that name. ECONNREFUSED for a name that no socket of the box has."""
        if self._own_abstract:
            self._check_netns(fd)
            return b"\1\0" + guest_text
        host_text = self._abstract.get(guest_text)
        if host_text is None:
            raise OSError(errno.ECONNREFUSED, "no socket of the box has this name")
        return b"\1\0" + host_text

    def _check_netns(self, fd: int) -> None:
        """Refuse a socket of husk's own network namespace: one from the caller, or from a server below a mount. Its
        abstract names are the host's, and the guest's walls do not confine husk, which makes the call."""
        if self._host_netns is None:
            self._host_netns = _own_netns()
        if self._host_netns and get_option(fd, SOL_SOCKET, SO_NETNS_COOKIE, 8) == self._host_netns:
            raise OSError(errno.EPERM, "a socket of the host's")

    def _host_text(self, guest_text: bytes) -> bytes:
        """A name keeps its number: so the host says EADDRINUSE where Linux would."""
        host_text = self._abstract.get(guest_text)
        if host_text is None:
            self._last += 1
            host_text = self._abstract[guest_text] = b"\0husk-%s-%d" % (self._secret, self._last)
            if len(self._abstract) > MOST_NAMES:
                del self._abstract[next(iter(self._abstract))]
            self._remember(host_text, guest_text)
        return host_text

    def _autobind(self, fd: int) -> None:
        for _ in range(AUTOBIND_NAMES):
            try:
                number = int.from_bytes(os.urandom(4), "little") % AUTOBIND_NAMES
                bind_address(fd, b"\1\0" + self._host_text(b"\0%05x" % number))
                return
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
        raise OSError(errno.ENOSPC, "no name is left")

    # -- what the guest is shown -------------------------------------------------------------------------------
    def guest_name(self, host_text: bytes) -> bytes:
        """Translate the text of a Unix address to the guest's. Unnamed and native abstract addresses are unchanged."""
        if not host_text or (self._own_abstract and host_text[:1] == b"\0"):
            return host_text
        return self._guest_names.get(host_text, b"")

    def _remember(self, host_text: bytes, guest_text: bytes) -> None:
        if len(self._guest_names) >= MOST_NAMES:
            del self._guest_names[next(iter(self._guest_names))]
        self._guest_names[host_text] = guest_text


def _own_netns() -> bytes:
    """The cookie of husk's own network namespace; empty before Linux 5.14."""
    probe = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        return get_option(probe.fileno(), SOL_SOCKET, SO_NETNS_COOKIE, 8)
    except OSError:
        return b""
    finally:
        probe.close()


def unix_address(host_path: bytes) -> bytes:
    return b"\1\0" + host_path + b"\0"


def _publish(at: int, old: bytes, new: bytes) -> None:
    """Link, because a rename would replace an existing file. File systems without links: check, then rename."""
    try:
        os.link(old, new, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            try:
                os.stat(new, dir_fd=at, follow_symlinks=False)
            except FileNotFoundError:
                os.rename(old, new, src_dir_fd=at, dst_dir_fd=at)
                return
        os.unlink(old, dir_fd=at)
        raise
    os.unlink(old, dir_fd=at)
