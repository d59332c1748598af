"""How much the name cache is taught for each name that a guest asks for."""

from __future__ import annotations

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
