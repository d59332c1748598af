"""sandbox: what the guest gets as descriptors 0, 1 and 2, and the terminal between a person and a box.

Files and pipes are handed over as they are. A terminal of the host never is: its holder can change its modes, read what
is typed there later, and more. The guest gets the slave of a pseudo-terminal of its own instead, and a thread
(native/host/relay.c) copies bytes. docs/design/006 argues it; docs/security.md says what a guest can still do. Network
sockets are not handed over either (`socket_streams`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the bare C module: see cli/cmd_run.py
import _thread
import fcntl
import os

from husk.native._core import relay
from husk.native.threads import start_thread
from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.stdio.std_fds import may_hand_over

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.sandbox.policy import Policy
    from husk.sandbox.stdio.socket_streams import SocketRelay
    from husk.vfs.synth.pts import PtsTree

_TIOCGWINSZ, _TIOCSWINSZ, _TIOCSPTLCK, _TIOCGPTPEER, _TIOCSIG = 0x5413, 0x5414, 0x40045431, 0x5441, 0x40045436
_USUAL_SIZE = (24).to_bytes(2, "little") + (80).to_bytes(2, "little") + bytes(4)
_OFLAG, _OPOST = 1, 1  # index in what termios.tcgetattr gives; the bit


class Streams:
    """`guest` are the three descriptors for the guest, `slave` its terminal or -1. Call `begin` once the guest has
    them, and `finish` in any case: it copies the last output and restores the person's terminal."""

    __slots__ = (
        "_drained",
        "_feed",
        "_given",
        "_hang_up",
        "_keys",
        "_master",
        "_orders",
        "_orders_in",
        "_owned",
        "_raw",
        "_saved",
        "_screen",
        "_socket_relays",
        "guest",
        "is_job",
        "slave",
    )

    def __init__(self, policy: Policy, given: tuple[int, int, int], terminals: PtsTree) -> None:
        self._given, self.guest = given, list(given)
        self._owned: list[int] = []
        self._master = self.slave = self._keys = self._screen = self._orders = self._orders_in = self._feed = -1
        self._raw = False
        self._hang_up: Callable[[], None] | None = None
        self._saved: list[object] = []
        self._socket_relays: list[SocketRelay] = []
        tty = [os.isatty(fd) for fd in given]
        self.is_job = any(tty)  # most likely a job of an interactive shell
        if policy.terminal and policy.interactive and not tty[0]:
            raise UsageError("-it: standard input is not a terminal; leave out -t, and the program reads it as it is.")
        try:
            if policy.terminal or any(tty):
                self._build(policy, tty, terminals)
            if any(not may_hand_over(fd) for fd in self.guest if fd in given):
                from husk.sandbox.stdio.socket_streams import relay_sockets

                self.guest, self._socket_relays = relay_sockets(self.guest)
        except BaseException:
            self.finish()
            raise

    def _build(self, policy: Policy, tty: list[bool], terminals: PtsTree) -> None:
        # In a pipeline (`husk run … | less`) the keyboard belongs to the last program, so husk reads it only with -i. A
        # husk in the background does not read it.
        reads_keys = tty[0] and (tty[1] or policy.interactive) and _in_front(self._given[0])
        if policy.terminal or tty[1] or tty[2]:
            self._open_terminal(terminals)
            self._screen = self._given[1] if policy.terminal or tty[1] else self._given[2]
            self._raw = reads_keys and tty[1]
            self._set_up(next((self._given[n] for n in (1, 0, 2) if tty[n]), -1))
            for number in (1, 2):
                if tty[number] or (policy.terminal and number == 1):
                    self.guest[number] = self.slave
        if tty[0]:
            if self._raw:
                self.guest[0], self._feed = self.slave, self._master
            elif reads_keys:
                self.guest[0], self._feed = os.pipe()
                os.set_blocking(self._feed, False)
                self._owned.append(self.guest[0])
            else:
                self.guest[0] = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
                self._owned.append(self.guest[0])
        if reads_keys:
            self._keys = self._given[0]
            self._saved = _modes(self._keys)

    def _open_terminal(self, terminals: PtsTree) -> None:
        try:
            self._master = terminals.make(os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(self._master, _TIOCSPTLCK, bytes(4))
            # Kept open to the end: a guest may close all its copies and open /dev/tty again.
            self.slave = fcntl.ioctl(self._master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            raise HuskError(
                f"a terminal is needed, and the host gives none (/dev/ptmx: {error.strerror}); "
                "redirect standard input, output and error."
            ) from None

    def _set_up(self, person: int) -> None:
        """Make the new terminal like the person's: the same keys erase and interrupt, the same size."""
        import termios

        if person >= 0:
            mode = termios.tcgetattr(person)
            if not self._raw:
                # The person's terminal still turns \\n into \\r\\n, and once is enough.
                mode[_OFLAG] &= ~_OPOST
            termios.tcsetattr(self.slave, termios.TCSANOW, mode)
        self._given_size(person)

    def _given_size(self, person: int) -> None:
        size = _USUAL_SIZE if person < 0 else fcntl.ioctl(person, _TIOCGWINSZ, bytes(8))
        fcntl.ioctl(self._master, _TIOCSWINSZ, size)

    @property
    def person(self) -> int:
        """The person's terminal if husk makes it raw; else -1."""
        return self._keys if self._raw else -1

    # -- while the box runs ----------------------------------------------------------------------------------------
    def begin(self, hang_up: Callable[[], None]) -> None:
        """The guest has its copies: start to copy bytes. `hang_up` sends SIGHUP to the guest."""
        self._close_owned()
        self._hang_up = hang_up
        for socket_relay in self._socket_relays:
            socket_relay.begin()
        if self._master < 0 and self._feed < 0:
            return
        self._drained = _thread.allocate_lock()
        self._drained.acquire()
        screen = -1 if self._screen < 0 else _own_description(self._screen)
        orders = os.pipe()
        self._orders, self._orders_in = orders
        try:
            start_thread(self._relay, screen)
        except OSError:
            self._orders_in = -1  # no thread reads them, so `finish` must not wait for one
            for fd in orders:
                os.close(fd)
            raise

    def _relay(self, screen: int) -> None:
        try:
            relay(self._master, self._keys, screen, self._feed, self._orders, self._raw)
        finally:
            if screen != self._screen:
                os.close(screen)
            try:
                # No reader is left. If the box still runs, its terminal hangs up (SIGHUP), as if its window was closed.
                # The signal goes first: a guest that writes must not get EIO before it.
                hang_up = self._hang_up
                if self._master >= 0 and hang_up is not None:
                    hang_up()
            finally:
                if self._master >= 0:
                    os.close(self._master)
                    self._master = -1
                self._drained.release()

    def resize(self) -> None:
        """After SIGWINCH; the host kernel then sends it to the guest's foreground programs too."""
        for fd in (self._screen, self._keys):
            try:
                if self._master >= 0 and fd >= 0:
                    self._given_size(fd)
                    return
            except OSError:
                continue  # not a terminal

    def signal(self, number: int) -> bool:
        """Send SIGINT, SIGQUIT or SIGTSTP to the foreground programs of the box's terminal; False without one."""
        if self._master < 0:
            return False
        try:
            fcntl.ioctl(self._master, _TIOCSIG, number)
        except OSError:
            return False
        return True

    def suspend(self) -> None:
        """A key stopped the guest: stop husk too, as a job of the person's shell; returns when continued. Without such
        a shell (an orphaned group) the host kernel ignores the signal, and this returns at once."""
        self._restore()
        was = _signal.signal(_signal.SIGTSTP, _signal.SIG_DFL)
        os.kill(0, _signal.SIGTSTP)
        _signal.signal(_signal.SIGTSTP, was)
        if self._orders_in >= 0:
            os.write(self._orders_in, b"l")
        self.resize()

    def _restore(self) -> None:
        if self._saved:
            import termios

            try:
                if _in_front(self._keys):
                    termios.tcsetattr(self._keys, termios.TCSANOW, self._saved)  # type: ignore[arg-type]
            except termios.error:
                pass  # it is gone

    # -- the end ---------------------------------------------------------------------------------------------------
    def finish(self) -> None:
        """The box is gone, or was never made. Safe to call twice."""
        self._close_owned()
        while self._socket_relays:
            self._socket_relays.pop().finish()
        if self.slave >= 0:
            os.close(self.slave)
            self.slave = -1
        if self._orders_in >= 0:
            self._hang_up = None
            os.write(self._orders_in, b"q")
            self._drained.acquire()
            os.close(self._orders)
            os.close(self._orders_in)
            self._orders_in = -1
            self._restore()
        elif self._master >= 0:
            os.close(self._master)
            self._master = -1

    def _close_owned(self) -> None:
        for fd in self._owned:
            os.close(fd)
        self._owned.clear()


def _in_front(terminal: int) -> bool:
    """Is husk in the terminal's foreground? Yes for one that is not our controlling terminal: it has no foreground."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return True


def _modes(terminal: int) -> list[object]:
    import termios

    return termios.tcgetattr(terminal)


def _own_description(screen: int) -> int:
    """Open the same terminal again, so that O_NONBLOCK affects only husk: the shell shares the open file we were given.
    If that is not allowed (another user's terminal, after su), or it is no terminal, use the given descriptor."""
    if not os.isatty(screen):
        return screen
    try:
        return os.open(f"/proc/self/fd/{screen}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return screen
