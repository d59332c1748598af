"""Exceptions of signal handlers in an application that looks at its box while C makes files in it.

They come between any two steps of Python's. Afterwards the vfs's lock is free, and every file is there.
"""

from __future__ import annotations

import os
import subprocess
import sys


def in_python(text: str, *arguments: str) -> list[str]:
    """A program of its own: if the lock stays taken, it and its box hang."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-X", "faulthandler", "-c", text, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment)
    assert done.returncode == 0, done
    return done.stdout.splitlines()


BEGIN = """
import faulthandler, io, os, random, signal, sys, tarfile, threading, time
import husk
from husk.kernel.made_files import MadeFiles
faulthandler.dump_traceback_later(100, exit=True)

def look(check, name):
    # from a thread of its own, which the lock keeps out if another thread still has it
    thread = threading.Thread(target=lambda: found.append(check(name)), daemon=True)
    found = []
    thread.start()
    thread.join(60)
    if not found:
        print("the lock is taken", flush=True)
        os._exit(3)
    return found[0]
"""

UNTAR = (
    BEGIN
    + """
folder, wanted_hits, directories, files = sys.argv[1], 400, 20, 30
armed, hits, described, over = False, 0, 0, False

with tarfile.open(folder + "/t.tar", "w") as tar:
    for d in range(directories):
        entry = tarfile.TarInfo(f"d{d}")
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(entry)
        for f in range(files):
            entry = tarfile.TarInfo(f"d{d}/f{f}")
            entry.size = f
            tar.addfile(entry, io.BytesIO(b"x" * f))

def handler(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

def interrupt():
    while not over:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(random.uniform(0.0001, 0.002))

describe = MadeFiles.describe
def counted(self, *made):
    global described
    described += 1
    return describe(self, *made)

MadeFiles.describe = counted
signal.signal(signal.SIGINT, handler)
script = "i=0; while [ ! -e stop ]; do mkdir t$i && tar -xf /in/t.tar -C t$i || exit 7; i=$((i+1)); done; echo $i"
with husk.Sandbox(mounts=[f"{folder}:/in:ro"]) as box:
    guest = box.popen(script, shell=True, stdout=-1, text=True)
    threading.Thread(target=interrupt, daemon=True).start()
    while hits < wanted_hits or described < 1000:
        try:
            armed = True
            box.exists("t0/d0/f0")
            box.stat(".")
            box.listdir(".")
            armed = False
        except KeyboardInterrupt:
            hits += 1
        time.sleep(0.002)
    over = True
    look(box.stat, ".")
    box.write("stop", "")
    rounds = int(guest.communicate()[0])
    assert guest.returncode == 0
    all_of_it = {f"d{d}": sorted(f"f{f}" for f in range(files)) for d in range(directories)}
    for i in range(rounds):
        assert {d: box.listdir(f"t{i}/{d}") for d in box.listdir(f"t{i}")} == all_of_it
        assert [len(box.read(f"t{i}/d7/f{f}")) for f in range(files)] == list(range(files))
    count = box.run("find t* -type f | wc -l", shell=True, capture_output=True, text=True).stdout
    assert int(count) == rounds * directories * files
    assert sum(change.kind == "added" for change in box.diff() if "/f" in change.path) == int(count)
print("all are there")
"""
)


def test_hundreds_while_a_guest_unpacks(tmp_path: object) -> None:
    assert in_python(UNTAR, str(tmp_path)) == ["all are there"]


STEPS = (
    BEGIN
    + """
steps = at = 0
there = ("describe", "made_outside", "__init__", "add_name", "removed_outside", "drop_name", "orphan")
guest_text = '''
import os, sys
os.mkdir('d')
os.close(os.open('d/first', os.O_CREAT | os.O_WRONLY))
print(flush=True)
for line in sys.stdin:
    what, name = line.split()
    if what == 'make':
        os.close(os.open('d/' + name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    else:
        os.unlink('d/' + name)
    print(flush=True)
'''

def trace(frame, event, _):
    global steps
    if frame.f_code.co_name not in there or not any(one in frame.f_code.co_filename for one in ("made_files", "/vfs/")):
        return None
    frame.f_trace_opcodes = True
    steps += event == "opcode"
    if steps == at and event == "opcode":
        raise KeyboardInterrupt
    return trace

def order(text):
    print(text, file=guest.stdin, flush=True)
    guest.stdout.readline()

def is_interrupted():
    global steps
    steps = 0
    try:
        sys.settrace(trace)
        box.stat("d")
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False

with husk.Sandbox() as box:
    guest = box.popen(["python3", "-c", guest_text], stdin=-1, stdout=-1, text=True)
    guest.stdout.readline()
    lock = box._runs.box().files.vfs.lock
    room, interrupted, counts = lock.room, True, []
    while interrupted:
        at += 1
        order(f"make f{at}")
        interrupted = is_interrupted()
        assert look(box.exists, f"d/f{at}")
    counts.append(at)
    names = sorted(["first", *(f"f{i}" for i in range(1, at + 1))])
    assert box.listdir("d") == names and len({box.stat(f"d/{name}").ino for name in names}) == len(names)
    assert lock.room == room - at
    at, interrupted = 0, True
    while interrupted:
        at += 1
        order(f"remove f{at}")
        interrupted = is_interrupted()
        assert not look(box.exists, f"d/f{at}")
        if at == counts[0]:
            break
    counts.append(at)
    assert box.listdir("d") == sorted(["first", *(f"f{i}" for i in range(at + 1, counts[0] + 1))])
    assert lock.room == room - counts[0] + at
    guest.stdin.close()
    assert guest.wait() == 0
    print(*counts)
    box.remove("d", recursive=True)
    assert lock.room == room + 2
"""
)


def test_one_at_every_step(tmp_path: object) -> None:
    """Between any two instructions of what describes a file that C made, or removed. Nothing is lost or counted
    twice."""
    (said,) = in_python(STEPS)
    assert all(int(count) > 40 for count in said.split()), said


NESTED = (
    BEGIN
    + """
# A signal handler that looks at the box, too, in the middle of that.
describe, seen = MadeFiles.describe, []
def interrupted(self, deed, owner, number, when, mode, name, host):
    if name not in seen:
        seen.append(name)
        place = "" if name in (b"d", b"e") else "d/"
        assert box.exists(place + now.get(name, name).decode())
        if name == b"f3":
            box.remove("d/f3")
    return describe(self, deed, owner, number, when, mode, name, host)

now = {b"tmp": b"f6", b"other": b"f6"}
MadeFiles.describe = interrupted
with husk.Sandbox() as box:
    box.run("mkdir d e; : > d/first; : > e/first; for i in 1 2 3 4 5; do : > d/f$i; done", shell=True, check=True)
    assert box.listdir("d") == ["f1", "f2", "f4", "f5", "first"], box.listdir("d")
    assert seen == [b"e", b"first", b"f1", b"f2", b"f3", b"f4", b"f5"], seen
    room = box._runs.box().files.vfs.lock.room
    # Each of these is moved later, and entered as a whole with that: the handler finds it there.
    box.run("umask 77; : > d/tmp; chmod 640 d/tmp; mv d/tmp e/tmp; mv e/tmp d/f6; : > e/other; mv e/other d/f6",
            shell=True, check=True)
    assert box.listdir("d") == ["f1", "f2", "f4", "f5", "f6", "first"], box.listdir("d")
    assert box.listdir("e") == ["first"] and box.stat("d/f6").mode == 0o100600, box.stat("d/f6")
    assert box._runs.box().files.vfs.lock.room == room - 1
print("all are there")
"""
)


def test_a_handler_that_takes_the_lock_too(tmp_path: object) -> None:
    assert in_python(NESTED) == ["all are there"]
