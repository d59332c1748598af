"""Every name in the host's /proc is either shown inside or left out for a written reason."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from husk.vfs.proc import absent as proc_absent
from husk.vfs.proc import sysctl as proc_sys
from husk.vfs.proc.entries import TASK_DIRS, TASK_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .conftest import Box


def undecided(names: Iterable[str], shown: Iterable[str], absent: Mapping[str, str]) -> list[str]:
    rest = set(names) - set(shown)
    return sorted(name for name in rest if not any(fnmatch.fnmatchcase(name, pattern) for pattern in absent))


def shown_in(box: Box, path: bytes) -> set[str]:
    return {name.decode() for name in box.names(path)}


def test_files_of_a_task(box: Box) -> None:
    shown = shown_in(box, b"/proc/1")
    assert not undecided(os.listdir("/proc/self"), shown, proc_absent.TASK)
    assert not undecided(os.listdir("/proc/thread-self"), shown_in(box, b"/proc/1/task/1"), proc_absent.TASK)


def test_network_files(box: Box) -> None:
    assert not undecided(os.listdir("/proc/self/net"), shown_in(box, b"/proc/1/net"), proc_absent.NET)


def test_files_of_the_machine(box: Box) -> None:
    names = [name for name in os.listdir("/proc") if not name.isdigit()]
    assert not undecided(names, shown_in(box, b"/proc"), proc_absent.TOP)


def test_nothing_is_both_shown_and_left_out() -> None:
    own = {name.decode() for name in (*TASK_FILES, *TASK_DIRS)}
    assert not own & proc_absent.TASK.keys()
    host = {f"{folder}/{name}" for folder, names in proc_sys.HOST.items() for name in names.split()}
    assert not host & proc_sys.MADE.keys()


@pytest.mark.parametrize("path", ["net/netfilter/nf_log/0", "kernel/panic", "fs/quota/reads", "sunrpc/tcp_slot_table"])
def test_an_undecided_setting_is_absent_with_a_reason(path: str) -> None:
    assert next(reason for pattern, reason in proc_absent.SYS.items() if fnmatch.fnmatchcase(path, pattern))


def test_settings_shown_are_readable_by_all_users_of_the_host(box: Box) -> None:
    """husk may run as root: what an ordinary user cannot read outside must not be readable inside."""
    for folder, names in proc_sys.HOST.items():
        for name in names.split():
            host = Path("/proc/sys", folder, name)
            if host.exists() and not host.stat().st_mode & 0o004:
                assert name not in shown_in(box, b"/proc/sys/" + folder.encode())
