"""The dispatcher: exactly one answer whatever happens, and a fault of husk's own is never a permission."""

from __future__ import annotations

import ast
import errno
import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from husk.abi.numbers import HUSK_CALL
from husk.abi.registry import ROWS, handled_rows, number
from husk.abi.registry.rules import IN_C, Row, Walls
from husk.kernel.call import ANSWERED, CONTINUE, Call, GiveFd
from husk.kernel.events import Events
from husk.kernel.syscalls import handlers, load
from tests.unit.kernel.fakes import FakeCall, FakeListener, Guest, new_descriptors, open_descriptors
from tests.unit.kernel.good_calls import GOOD

HANDLERS = {row.nr: row.name for row in handled_rows()}
GETCWD = number("getcwd")


class Boom(Exception):
    """Nothing husk expects."""

IDS = ("getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "setgroups", "setfsuid",
       "setfsgid", "capget", "capset")  # fmt: skip


def boom(*_: object) -> NoReturn:
    raise Boom("injected")


class Poisoned:
    """Every use of it is a fault."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Boom(f"injected in {name}")


class PoisonedCall(FakeCall):
    """The guest cannot be inspected: the first question fails. Answers still get through."""

    cstring = read = write = fd_link = fd_stat = get_fd = position = cwd_link = umask = tgid = boom  # type: ignore[assignment]
    add_fd = change_directory = exec_loader = give_path = seek = boom  # type: ignore[assignment]


@pytest.fixture
def told() -> list[dict[str, object]]:
    return []


@pytest.fixture
def guest(tmp_path: Path, lower: Path, told: list[dict[str, object]]) -> Iterator[Guest]:
    (tmp_path / "state").mkdir()
    box = Guest(os.fsencode(tmp_path / "state"), os.fsencode(lower), Events(told.append, None))
    box.faults_expected = True
    yield box
    box.close()


def replace(guest: Guest, nr: int, handler: Callable[[Call], Any]) -> None:
    guest.kernel._handlers[nr] = handler


def faults(told: list[dict[str, object]]) -> list[dict[str, object]]:
    return [event for event in told if event["event"] == "fault"]


# -- the table ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("row", [row for row in handled_rows() if row.family != IN_C], ids=lambda row: row.name)
def test_every_virtual_call_has_a_handler(row: Row) -> None:
    assert row.nr in handlers() and callable(load(row.nr, row.family, row.name, row.way))


def test_calls_served_in_c_have_no_handler_in_python() -> None:
    """They are answered before Python sees them (native/remote/signals.c): a table entry would never be asked."""
    in_c = {row.nr: row.name for row in handled_rows() if row.family == IN_C}
    assert in_c == {number("rt_sigaction"): "rt_sigaction"} and not in_c.keys() & handlers().keys()


@pytest.mark.parametrize("family", sorted({row.family for row in handled_rows()} - {IN_C}))
def test_a_family_has_the_calls_that_name_it(family: str) -> None:
    """A public function that is spelled like a call is its handler: the row must say so."""
    names = {row.name: row.family for row in handled_rows()}
    module = import_module(f"husk.kernel.syscalls.{family}")
    found = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    assert found & names.keys() == {name for name, home in names.items() if home == family}


JUDGED = [row for row in ROWS.values() if row.way == "judged"]


@pytest.mark.parametrize("row", JUDGED, ids=lambda row: row.name)
def test_a_judged_call_is_refused_whatever_its_check_says(
    guest: Guest, told: list[dict[str, object]], row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    for says in (None, 0, 7, CONTINUE):
        monkeypatch.setattr(f"husk.kernel.syscalls.{row.family}.{row.name}", lambda _, says=says: says)
        replace(guest, row.nr, load(row.nr, row.family, row.name, row.way))
        assert guest.answer(guest.make(row.nr)) == ("error", row.otherwise.errno)
    refusals = [event for event in told if event["event"] == "refused"]
    assert bool(refusals) == (not row.otherwise.quiet)
    assert all(event["reason"] == row.reason for event in refusals)


def test_a_judged_call_fails_in_linuxs_order(guest: Guest) -> None:
    assert guest.errno("chroot", 0x10) == "EFAULT"
    assert guest.errno("chroot", guest.text(b"missing")) == "ENOENT"
    assert guest.errno("chroot", guest.text(b"file")) == "ENOTDIR"
    assert guest.errno("chroot", guest.text(b"dir")) == "EPERM"


def test_no_handler_without_a_row() -> None:
    assert handlers().keys() <= HANDLERS.keys()


def test_the_fakes_are_like_the_real_ones() -> None:
    """Same methods, same number of arguments: else these tests would test something that is not there."""
    stub = Path(__file__).parents[3] / "src" / "husk" / "native" / "_core.pyi"
    real = {node.name: node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ClassDef)}
    for method in real["Call"].body:
        if isinstance(method, ast.FunctionDef) and not method.decorator_list:
            code = getattr(FakeCall, method.name).__code__
            assert code.co_argcount == len(method.args.posonlyargs + method.args.args), method.name
            defaults = getattr(FakeCall, method.name).__defaults__ or ()
            assert len(defaults) == len(method.args.defaults), method.name
    kernels_own = {"receive", "show", "gate_use", "__init__"}  # the fake's kernel never starts its threads
    taught = {method.name for method in real["Listener"].body if isinstance(method, ast.FunctionDef)} - kernels_own
    assert all(hasattr(FakeListener, name) for name in taught)


# -- faults ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("nr", sorted(handlers()), ids=lambda nr: HANDLERS[nr])
def test_exception_in_every_handler(guest: Guest, told: list[dict[str, object]], nr: int) -> None:
    replace(guest, nr, boom)
    # Some kinds of these are refused without asking the handler.
    served = {"socket": (2, 1), "ioctl": (0, 0x5441), "prctl": (3,)}.get(HANDLERS[nr], ())
    assert guest.answer(guest.make(nr, *served)) == ("error", errno.EIO)
    (fault,) = faults(told)
    assert fault["call"] == HANDLERS[nr]
    assert "Boom: injected" in str(fault["traceback"])


@pytest.mark.parametrize("nr", sorted(handlers()), ids=lambda nr: HANDLERS[nr])
def test_exception_while_looking_at_the_guest(guest: Guest, told: list[dict[str, object]], nr: int) -> None:
    """The real handler runs into a fault when it copies its arguments; some look at numbers only and just end. Those
    about ids leave all of it to the host where the box has one user."""
    before = open_descriptors()
    guest.kernel.disk_is_limited = True  # else fallocate has nothing to look for
    call = PoisonedCall(guest, nr, (1, 64, 64, 64, 0, 0))
    kind, value = guest.answer(call)
    assert not new_descriptors(before)
    if faults(told):
        assert (kind, value) == ("error", errno.EIO)
    else:
        # personality(2) runs in the host, if no program has restricted itself: its argument is a register.
        numbers = HANDLERS[nr] in (*IDS, "personality") and (kind, value) == ("proceed", 0)
        assert kind == "error" or numbers, "neither looked at the guest nor failed"


@pytest.mark.parametrize("name", GOOD)
def test_good_calls_are_good(guest: Guest, told: list[dict[str, object]], name: str) -> None:
    assert guest.answer(guest.make(name, *GOOD[name](guest)))[0] in ("value", "fd", "executed")
    assert not faults(told)


@pytest.mark.parametrize("name", GOOD)
def test_exception_in_the_vfs(guest: Guest, told: list[dict[str, object]], name: str) -> None:
    """Arguments are good; what they lead to blows up. No descriptor is left behind, none is granted."""
    call = guest.make(name, *GOOD[name](guest))
    guest.kernel.vfs = cast(Any, Poisoned())
    before = open_descriptors()
    assert guest.answer(call) == ("error", errno.EIO)
    assert len(faults(told)) == 1
    assert not new_descriptors(before)


def test_every_handler_has_a_good_call() -> None:
    """So that the two tests above cover every handler. But calls about processes, keys and IPC never ask the vfs,
    some calls are always refused, and fallocate asks only the host."""
    processes = ("sched_", "getp", "gets", "get_robust", "getrl", "setp", "setu", "setg", "setr", "ioprio", "prlimit")
    others = (*IDS, "prctl", "husk_call", "uname", "shm", "sem", "msg", "mq_", "add_key", "request_key", "keyctl",
              "landlock_", "personality", "clone3")  # fmt: skip
    sockets = ("accept", "listen", "recv", "socket", "setsockopt")  # unless they name one
    never_good = {row.name for row in JUDGED} | {"chroot", "quotactl"}  # chroot: unless the user is root of an image
    names = {HANDLERS[nr] for nr in handlers()} - never_good - {"fallocate"}
    assert {name for name in names if not name.startswith(processes + others + sockets)} == GOOD.keys()


@pytest.mark.parametrize("fault", [Boom, MemoryError, RecursionError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_any_exception_at_all(guest: Guest, told: list[dict[str, object]], fault: type[BaseException]) -> None:
    def handler(_: Call) -> NoReturn:
        raise fault

    replace(guest, GETCWD, handler)
    assert guest.answer(guest.make(GETCWD)) == ("error", errno.EIO)
    assert fault.__name__ in str(faults(told)[0]["traceback"])


def test_an_error_without_a_number_is_ours(guest: Guest) -> None:
    def handler(_: Call) -> NoReturn:
        raise OSError("no errno inside")

    replace(guest, GETCWD, handler)
    assert guest.answer(guest.make(GETCWD)) == ("error", errno.EIO)


@pytest.mark.parametrize("reply", [None, "text", 1.5, ANSWERED], ids=["None", "text", "float", "ANSWERED"])
def test_a_reply_that_is_none(guest: Guest, told: list[dict[str, object]], reply: object) -> None:
    """A handler that returns nothing sensible, or says ANSWERED without an answer: the guest must not wait for ever."""
    replace(guest, GETCWD, lambda _: reply)
    assert guest.answer(guest.make(GETCWD))[0] == "error"


def test_faults_are_kept_but_not_without_end(guest: Guest) -> None:
    replace(guest, GETCWD, boom)
    for _ in range(150):
        guest.answer(guest.make(GETCWD))
    assert len(guest.events.faults) == 100


# -- events may fail, calls may not ------------------------------------------------------------------------------------

def full(_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "no space left")


@pytest.mark.parametrize("listener", [full, boom])
@pytest.mark.parametrize("how", ["tell", "trace"])
def test_nothing_an_event_does_fails_a_call(
    tmp_path: Path, lower: Path, how: str, listener: Callable[[object], NoReturn]
) -> None:
    """The disk that holds the event log is full, or the log's writer is wrong."""
    (tmp_path / "state").mkdir()
    events = Events(listener, None) if how == "tell" else Events(None, listener)
    guest = Guest(os.fsencode(tmp_path / "state"), os.fsencode(lower), events)
    guest.faults_expected = True
    try:
        before = open_descriptors()
        for name, args, expected in (
            ("open", (guest.text(b"file"), 0), "fd"),
            ("stat", (guest.text(b"file"), guest.memory.put(bytes(144))), "value"),
            ("stat", (guest.text(b"missing"), guest.memory.put(bytes(144))), "error"),
            ("reboot", (1,), "error"),
        ):
            kind, value = guest.answer(guest.make(name, *args))
            assert kind == expected, f"{name}: {kind} {value}"
            assert (kind, value) not in (("error", errno.ENOSPC), ("error", errno.EIO))
        assert len(new_descriptors(before)) == 1, "more than the one descriptor the guest got is open"
    finally:
        guest.close()


def test_a_fault_after_the_answer_is_not_a_second_answer(guest: Guest, told: list[dict[str, object]]) -> None:
    guest.events.answered = boom  # type: ignore[method-assign, assignment]
    kind, _ = guest.answer(guest.make("stat", guest.text(b"file"), guest.memory.put(bytes(144))))
    assert kind == "value"
    assert len(faults(told)) == 1


# -- descriptors -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.EBADF])
def test_injection_that_fails(guest: Guest, told: list[dict[str, object]], error: int) -> None:
    before = open_descriptors()
    call = guest.make("open", guest.text(b"file"), os.O_RDONLY)
    call.fails_with = error
    assert guest.answer(call) == ("error", error)
    assert not new_descriptors(before), "husk's own descriptor stayed open"
    assert not faults(told)


def test_only_a_loader_may_ask(guest: Guest) -> None:
    """The C core answers loaders. A call that reaches Python is not from a loader."""
    assert guest.answer(guest.make(HUSK_CALL, 1, guest.memory.put(bytes(24576)), 24576, 3)) == ("error", errno.ENOSYS)


def test_cloexec_is_the_guests(guest: Guest) -> None:
    assert os.get_inheritable(guest.open(b"file", os.O_RDONLY))
    assert not os.get_inheritable(guest.open(b"file", os.O_RDONLY | os.O_CLOEXEC))


def test_continue_only_where_a_handler_says_so(guest: Guest) -> None:
    replace(guest, GETCWD, lambda _: CONTINUE)
    assert guest.answer(guest.make(GETCWD)) == ("proceed", 0)


def test_a_descriptor_given_is_closed_in_husk(guest: Guest) -> None:
    before = open_descriptors()
    replace(guest, GETCWD, lambda _: GiveFd(os.open("/dev/null", os.O_RDONLY), cloexec=True))
    kind, fd = guest.answer(guest.make(GETCWD))
    assert kind == "fd"
    assert [int(line.split()[0]) for line in new_descriptors(before)] == [fd]


# -- refusals ----------------------------------------------------------------------------------------------------------

REFUSED = sorted(nr for nr, row in ROWS.items() if row.way == "refused")


@pytest.mark.parametrize("nr", REFUSED, ids=lambda nr: ROWS[nr].name)
def test_refused_calls_get_the_registrys_words(guest: Guest, told: list[dict[str, object]], nr: int) -> None:
    call = guest.make(nr, 0, 0, 0, 0, 0, 0)
    verdict = ROWS[nr].verdict(call.args, Walls())
    if verdict.way != "refused":
        pytest.skip(f"{ROWS[nr].name} is {verdict.way} for these arguments")
    assert guest.answer(call) == ("error", verdict.errno)
    (event,) = [event for event in told if event["event"] == "refused"]
    assert event["call"] == ROWS[nr].name
    assert event["reason"] == verdict.reason
    assert event["errno"] == errno.errorcode[verdict.errno]
    assert not faults(told)


@pytest.mark.parametrize("nr", [500, 1023, 0x4854, 0x4856, 2**31 - 1])
def test_numbers_that_are_no_call(guest: Guest, nr: int) -> None:
    assert guest.answer(guest.make(nr)) == ("error", errno.ENOSYS)


def test_the_loaders_question_from_another_process(guest: Guest) -> None:
    for op in (0, 1, 2, 1 << 32):
        assert guest.answer(guest.make(HUSK_CALL, op, 0x10000, 4096)) == ("error", errno.ENOSYS)
