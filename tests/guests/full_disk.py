"""On a file system that is full: full_disk.py WHAT BOX LOWER. BOX is a directory to fill, LOWER a host file of 3 MB below
a copy-on-write mount. One line per step; nothing may be lost or half done."""

import errno
import os
import sys

what, box, lower = sys.argv[1:]
os.chdir(box)


def step(name, action):
    try:
        result = action()
    except OSError as failure:
        result = errno.errorcode[failure.errno]
    print(f"{name}: {'ok' if result is None else result}", flush=True)


def fill():
    fd = os.open("filler", os.O_WRONLY | os.O_CREAT, 0o644)
    size = 1 << 16
    try:
        while True:
            try:
                os.write(fd, b"f" * size)
            except OSError:
                if size == 1:
                    raise
                size //= 2
    finally:
        os.close(fd)


def many():
    for number in range(100_000):
        os.close(os.open(f"many{number}", os.O_WRONLY | os.O_CREAT, 0o644))


def write(name, data, place=0):
    with open(name, "r+b", buffering=0) as file:
        file.seek(place)
        file.write(data)


def read(name, size=5):
    with open(name, "rb") as file:
        return file.read(size)


def make(name):
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))


with open("before", "w") as file:
    file.write("precious" * 1000)
os.mkdir("directory")
make("directory/early")
if what == "blocks":
    step("fill", fill)
    step("write to another page", lambda: write("before", b"more", 1 << 20))
else:
    step("many", many)
    step("create", lambda: make("one more"))
    step("is it there", lambda: os.path.exists("one more"))
    step("create in a directory", lambda: make("directory/late"))
    step("mkfifo", lambda: os.mkfifo("fifo"))
    step("is it there", lambda: os.path.exists("fifo"))
step("write to a host file", lambda: write(lower, b"changed"))
step("it reads", lambda: read(lower))
step("truncate a host file", lambda: os.truncate(lower, 2_000_000))
step("its size", lambda: os.path.getsize(lower))
step("rename", lambda: os.rename("before", "after"))
step("link", lambda: os.link("after", "again"))
step("symlink", lambda: os.symlink("after", "link"))
step("chmod", lambda: os.chmod("after", 0o600))
step("reads", lambda: read("link", 10))
step("mkdir", lambda: os.mkdir("new directory"))
step("list", lambda: sorted(name for name in os.listdir(".") if not name.startswith("many")))
for name in os.listdir("."):
    if name.startswith(("many", "filler")):
        os.unlink(name)
step("after room was made", lambda: make("one more"))
step("write to a host file", lambda: write(lower, b"changed"))
step("it reads", lambda: read(lower))
step("its size", lambda: os.path.getsize(lower))
step("list the new directory", lambda: os.listdir("new directory"))
step("precious", lambda: read("after", 10_000) == b"precious" * 1000)
