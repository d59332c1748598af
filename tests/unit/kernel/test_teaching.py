"""How much the name cache is taught for each name that a guest asks for."""

from __future__ import annotations

from husk.vfs.proc.proc_tree import ProcTree
from husk.vfs.synth.sysfs import SysTree
from tests.unit.kernel.fakes import Guest


def taught_for(guest: Guest, files: int, asked: int) -> list[bytes]:
    """Which names were taught, over all, while `asked` of so many new files were looked at."""
    for number in range(files):
        guest.write_file(b"/dir/e%d" % number, b"", 0o644)
    guest.listener.taught.clear()
    room = guest.memory.put(bytes(144))
    for number in range(asked):
        guest.call("stat", guest.text(b"/dir/e%d" % (number * files // asked)), room)
    return [key for _, key, *_ in guest.listener.taught]


def test_the_files_of_a_small_directory_are_taught_after_a_few_looks(guest: Guest) -> None:
    assert set(taught_for(guest, files=60, asked=5)) >= {b"/dir/e%d" % number for number in range(60)}


def test_a_few_looks_at_a_large_directory_teach_no_more_than_themselves(guest: Guest) -> None:
    # All that is taught is forgotten at the next new file: a program that looks and writes in turn would have all of
    # them taught each time.
    assert len(taught_for(guest, files=300, asked=5)) <= 5 + 1


def test_looks_at_a_large_part_of_a_directory_teach_all_of_it_once(guest: Guest) -> None:
    found = taught_for(guest, files=300, asked=60)
    assert len(set(found)) >= 300
    assert len(found) <= 300 + 60


def test_what_is_taught_of_made_up_trees(guest: Guest) -> None:
    guest.vfs.mount(SysTree(dev=77), b"/sys")
    guest.vfs.mount(ProcTree(lambda: guest.kernel.tasks, list, guest.creds, dev=78), b"/proc")
    guest.listener.taught.clear()
    room = guest.memory.put(bytes(144))
    for _ in range(3):
        for name in (b"/sys/class/net/none", b"/sys/class/net", b"/sys/none/x", b"/proc/none", b"/proc/version"):
            guest.answer(guest.make("stat", guest.text(name), room))
    taught = [key for _, key, *_ in guest.listener.taught]
    assert [key for key in taught if key.startswith((b"/sys/", b"/proc/"))].count(b"/proc/version") == 1
    assert set(taught) <= {b"/sys/class/net/none", b"/proc/version", b"/sys", b"/proc"}
    assert b"/sys/class/net/none" in taught


def test_a_mount_in_a_tree_of_which_nothing_was_taught(guest: Guest) -> None:
    guest.vfs.mount(SysTree(dev=77), b"/sys")
    room = guest.memory.put(bytes(144))
    for _ in range(2):
        guest.answer(guest.make("stat", guest.text(b"/sys/class/net/none"), room))
    guest.listener.forgotten.clear()
    guest.vfs.mount(SysTree(dev=79), b"/sys/class")
    assert any(owner == 0 for owner, *_ in guest.listener.forgotten)
