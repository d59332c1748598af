"""Programs that use inotify: inotifywait, tail -f, python through ctypes."""

from __future__ import annotations

import pytest

from tests.lib.harness import differential

pytestmark = pytest.mark.both_settings

# Whether two equal events become one depends on when they are read, so the tests ask only for events that never merge.
INOTIFYWAIT = """
cd "$1" && mkdir -p tree/a/b tree/c && echo old >tree/a/old
: >log >err
inotifywait -m -r -e create,delete,moved_from,moved_to,close_write,delete_self --format '%e %w%f' tree >log 2>err &
watcher=$!
until grep -q established err; do sleep 0.02; done
echo text >tree/a/new; mv tree/a/new tree/a/b/moved; mv tree/a/b tree/c/b; echo more >>tree/c/b/moved; rm tree/c/b/moved
# What it looks up of what is moved and made, it has looked up when it tells of the mark: a look that meets the removal
# of a directory would delay its last event.
: >tree/mark; until grep -q CLOSE_WRITE.*mark log; do sleep 0.02; done
echo text >>tree/a/old; rmdir tree/c/b; rm -r tree/a; ln -s nowhere tree/link; mkdir tree/end
until grep -q end log; do sleep 0.02; done
exec 2>/dev/null  # some shells tell of the end of a job, sometimes
kill $watcher; wait $watcher
cat log
"""

TAIL = """
cd "$1" && echo one >log && : >out
tail -n +1 -f log >out & tail=$!
until grep -q one out; do sleep 0.02; done
echo two >>log; until grep -q two out; do sleep 0.02; done
exec 2>/dev/null
kill $tail; wait $tail; cat out
"""

PYTHON = """
import ctypes, os, select, struct, sys
os.chdir(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
queue = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
print(libc.inotify_add_watch(queue, b".", 0x100 | 0x200 | 0x08 | 0x40 | 0x80))
with open("first", "w") as file:
    file.write("text")
os.rename("first", "second")
os.remove("second")
select.select([queue], [], [])
data = os.read(queue, 4096)
while data:
    wd, mask, cookie, size = struct.unpack_from("iIII", data)
    print(wd, hex(mask), bool(cookie), data[16:16 + size].rstrip(b"\\0").decode())
    data = data[16 + size:]
"""


@pytest.mark.needs("inotifywait")
@pytest.mark.parametrize("where", [".", "/tmp"])
def test_inotifywait(where: str) -> None:
    script = f'd=$(mktemp -d {where}/XXXXXX); (set -- "$d"; {INOTIFYWAIT}); rm -r "$d"'
    result = differential(["sh", "-c", script], case="inotifywait")
    assert "MOVED_TO,ISDIR tree/c/b" in result.out


@pytest.mark.needs("ls")
def test_tail_follows() -> None:
    differential(["sh", "-c", f'd=$(mktemp -d /tmp/XXXXXX); (set -- "$d"; {TAIL}); rm -r "$d"'], case="tail -f")


@pytest.mark.needs("python3")
def test_python() -> None:
    script = 'd=$(mktemp -d /tmp/XXXXXX); python3 -c "$0" "$d"; rm -r "$d"'
    differential(["sh", "-c", script, PYTHON], case="python inotify")
