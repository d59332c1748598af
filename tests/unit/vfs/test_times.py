"""Which time stamps a call touches: the same ones on the host and in the vfs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.vfs import scripted
from tests.unit.vfs.native import run_native
from tests.unit.vfs.trees import TREES, copy_tree, new_state, prepare
from tests.unit.vfs.virtual import Virtual
from tests.unit.vfs.worlds import Step

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be an ordinary user in a root of its own")

WATCHED = b"home home/deep home/empty home/file home/deep/inner home/twin2 home/to_file home/n".split()

# One line per call; everything before `;` only sets the scene.
CALLS = """
    open 1 home/n O_CREAT|O_WRONLY
    mkdir home/n
    symlink t home/n
    mknod home/n S_IFIFO
    link home/file home/n
    link home/twin1 home/n
    unlink home/file
    unlink home/twin1
    rmdir home/empty
    rename home/file home/n
    rename home/file home/deep/x
    rename home/deep home/empty
    rename home/deep/er home/empty/x
    rename home/file home/readonly
    rename home/file home/deep/inner 2
    chmod home/file 0o600
    chmod home/deep 0o700
    chown home/file -1 12345
    chown home/file -1 -1
    touch home/file
    touch home/deep
    utime home/file 5 6
    truncate home/file 3
    truncate home/file 18
    truncate home/file 0
    open 1 home/file O_RDONLY
    open 1 home/file O_RDWR
    open 1 home/file O_WRONLY|O_TRUNC
    open 1 home/file O_CREAT|O_WRONLY
    open 1 home/file O_RDWR ; write 1 x
    open 1 home/n O_CREAT|O_RDWR ; write 1 x
    open 1 home/n O_CREAT|O_RDWR ; chmod home/n 0o600
    open 1 home/n O_CREAT|O_RDWR ; link home/n home/m
    open 1 home/n O_CREAT|O_RDWR ; rename home/n home/m
    open 1 home/n O_CREAT|O_RDWR ; truncate home/n 5
    open 1 home O_TMPFILE|O_RDWR
    open 1 home O_TMPFILE|O_RDWR ; linkfd 1 home/n
    setxattr home/file user.a b
    setxattr home/file user.a b ; removexattr home/file user.a
    mkdir home/n ; mkdir home/n/d
    mkdir home/n ; chmod home/n 0o700
    rename home/file home/n 1
    unlink home/nothing
    mkdir theirs/no
    stat home/file
    list home/deep
    readlink home/to_file
"""


def steps_of(line: str) -> tuple[list[Step], Step]:
    *scene, last = [scripted.parse(step) for step in line.split(";")]
    return scene, last


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("line", [line.strip() for line in CALLS.strip().splitlines()])
def test_touched(tmp_path: Path, line: str, kind: str) -> None:
    scene, last = steps_of(line)
    native = prepare(tmp_path / "native", scripted.build)
    source = copy_tree(native, tmp_path / "source")
    state = new_state(tmp_path)
    world = Virtual(state, TREES[kind](state, source))
    steps = [*scene, ("snapshot", WATCHED), last, ("touched", WATCHED)]
    try:
        answers = world.run(steps)
    finally:
        world.close()
        state.close()
    assert answers[-3:] == run_native(native, steps)[-3:]
