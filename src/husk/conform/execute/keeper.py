"""conform/execute: keeps one program: starts it, waits for it no longer than it may take, and ends all it left behind.

A program of its own, started by one_unit.py. Processes that lose their parent come to it (PR_SET_CHILD_SUBREAPER), also
those that made a session of their own, so none outlives it. It notices on standard input that whoever started it wants
an end (a byte), or has died: end of file, also after kill -9. It imports little, for it is started for every unit.

Usage: keeper.py DIRECTORY ANSWER. Standard input begins with eight digits, and a JSON object of so many bytes; the
answer goes to the descriptor ANSWER. At the end of the input the keeper removes what is left of DIRECTORY. It is
started before there is one: a caller that is killed at any moment leaves nothing behind.
"""

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
GRACE = 2.0  # seconds for a sandbox to clean up after SIGTERM
PATIENCE = 10.0  # seconds for killed processes to go; what is left then is beyond this user


def main() -> None:
    place, answered = sys.argv[1], int(sys.argv[2])
    os.set_inheritable(answered, False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    order = read_order()
    if order is not None:
        try:
            os.write(answered, json.dumps(keep(order)).encode())
        except BrokenPipeError:
            pass
        os.close(answered)
        while os.read(0, 64):  # until the caller has removed the directory, or has died
            pass
    if os.path.lexists(place):
        import shutil  # rarely needed

        shutil.rmtree(place, ignore_errors=True)


def read_order() -> "dict | None":  # type: ignore[type-arg]
    """None: the caller died first."""
    size = read_exactly(8)
    text = read_exactly(int(size)) if size else b""
    return json.loads(text) if text else None


def read_exactly(size: int) -> bytes:
    """No more, for what follows is a wish for an end. Empty: the input ended before."""
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            return b""
        data += part
    return data


def keep(order: dict) -> dict:  # type: ignore[type-arg]
    """Run the program that `order` names to its end; returns the answer."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    told, tell = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        start(order, tell)
    os.close(tell)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)  # the readers of its output see the end when the last of its processes is gone
    os.dup2(nowhere, 2)
    failed = os.read(told, 16)
    if failed:
        os.waitpid(child, 0)
        return {"errno": int(failed), "seconds": 0.0}
    timed_out = wait(child, order["seconds"])
    seconds = time.monotonic() - began
    code = end(child, polite=order["polite"])
    return {"code": code, "timed_out": timed_out, "seconds": seconds}


def start(order: dict, tell: int) -> None:  # type: ignore[type-arg]
    """In the child. Never returns."""
    try:
        os.setsid()
        # All, not only those ignored above: nohup and a shell's `&` ignore more, and tests of signals would hang.
        for number in range(1, signal.NSIG):
            if signal.getsignal(number) not in (signal.SIG_DFL, None):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if order["groups"] is not None:
            os.setgroups(order["groups"])
            os.setresgid(order["gid"], order["gid"], order["gid"])
            os.setresuid(order["uid"], order["uid"], order["uid"])
        os.chdir(order["directory"])
        os.umask(0o022)
        execute(order["argv"], order["environment"])
    except OSError as error:
        os.write(tell, str(error.errno or 5).encode())
    except BaseException:
        os.write(tell, b"22")
    os._exit(127)


def execute(argv: "list[str]", environment: "dict[str, str]") -> None:
    """As execvpe, which imports a module for it: the user of the program may not be allowed to read that."""
    if "/" in argv[0]:
        os.execve(argv[0], argv, environment)
    failure: OSError = FileNotFoundError(2, "")
    for folder in environment.get("PATH", "/usr/bin:/bin").split(":"):
        try:
            os.execve(f"{folder}/{argv[0]}", argv, environment)
        except OSError as error:
            failure = error if isinstance(error, PermissionError) else failure
    raise failure


def wait(child: int, seconds: float) -> bool:
    """Until it ends, an end is wanted, or the time is over: true."""
    handle = os.pidfd_open(child)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.register(0, select.POLLIN)
    ready = poll.poll(seconds * 1000)
    os.close(handle)
    return not ready


def end(child: int, *, polite: bool) -> int:
    """Kill the child if it still runs, and everything that descends from it. Returns the child's status as subprocess
    has it."""
    status = reaped(child, os.WNOHANG)
    if status is None and polite:
        kill(-child, signal.SIGTERM)
        until = time.monotonic() + GRACE
        while status is None and time.monotonic() < until:
            time.sleep(0.02)
            status = reaped(child, os.WNOHANG)
    if status is None:
        kill(-child, signal.SIGKILL)
        kill(child, signal.SIGKILL)
        status = reaped(child, 0)
    kill(-child, signal.SIGKILL)
    until = time.monotonic() + PATIENCE
    pause = 0.0005
    while time.monotonic() < until:
        try:
            while os.waitpid(-1, os.WNOHANG | 0x40000000)[0]:  # __WALL: also those cloned with another signal
                pass
        except ChildProcessError:
            break
        for pid in children():
            kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return -signal.SIGKILL if status is None else status


def reaped(child: int, flags: int) -> "int | None":
    pid, status = os.waitpid(child, flags)
    return os.waitstatus_to_exitcode(status) if pid else None


def kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


def children() -> "list[int]":
    own, found = os.getpid(), []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if parent == own:
                found.append(int(name))
    return found


if __name__ == "__main__":
    main()
