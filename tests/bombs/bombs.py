"""Guests that take as much as they can get of one thing, as data: the program, its size in CI and at full size, and
what must come of it. `test_bombs` runs them small, `make bombs` at full size (`run`).

Each guest says how far it got and then does something ordinary, which shows that husk still answers.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import ctypes, errno, os, resource, socket, sys, threading, time
N = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)

def upto(count, one):
    for n in range(count):
        try:
            one(n)
        except OSError as error:
            print(n, errno.errorcode[error.errno], flush=True)
            return
    print(count, "all", flush=True)

def raise_files():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most

def touch(name):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
"""
TAIL = """
os.chdir("/tmp")
with open("answers", "w") as file:
    file.write("yes")
print("husk answers:", open("answers").read(), os.path.exists("/usr/bin/env"), flush=True)
"""
ANSWERS = "husk answers: yes True"


@dataclass(frozen=True)
class Bomb:
    """`small` 0: too slow for CI, or tests/box/test_limits.py has one like it. `told`: what the guest prints first,
    with N for its size; `limit`: the verdict husk must give, if any; `ended`: the box does not survive it. `base` and
    `each` bound husk's own memory: so many MiB, and so many bytes for each of the size."""

    name: str
    script: str
    small: int
    full: int
    options: tuple[str, ...] = ()
    told: str = "N all"
    limit: str = ""
    ended: bool = False
    base: int = 80
    each: int = 0
    seconds: int = 600


# {}: the family of sockets and the address of socket n.
BIND = """
raise_files()
kept = []
def one(n):
    kept.append(socket.socket(socket.{}))
    kept[-1].bind({})
upto(N, one)
"""

BOMBS = (
    Bomb("fork", """
def bomb():
    while True:
        try:
            if os.fork() == 0:
                continue
        except OSError:
            pass
        time.sleep(0.01)
if os.fork() == 0:
    bomb()
end = time.monotonic() + N
while time.monotonic() < end:
    os.stat("/usr/bin")
    time.sleep(0.01)
print(N, "all", flush=True)
""", 0, 10, ("--limit", "processes=400"), limit="processes"),
    Bomb("threads", """
lock = threading.Lock()
lock.acquire()
threading.stack_size(65536)
def one(n):
    try:
        threading.Thread(target=lambda: (os.stat("/usr/bin/env"), lock.acquire(), lock.release()), daemon=True).start()
    except RuntimeError:
        raise OSError(errno.EAGAIN, "")
upto(N, one)
lock.release()
""", 300, 10_000, ("--limit", "processes=12k")),
    Bomb("memory", "kept = []\nwhile True: kept.append(bytearray(b'x') * (1 << 20))", 0, 512,
         ("--limit", "memory=NM"), told="", limit="memory", ended=True),
    Bomb("disk", """
n = 0
while True:
    with open(f"f{n}", "wb") as file:
        for _ in range(16):
            file.write(bytes(1 << 20))
    n += 1
""", 0, 1024, ("--limit", "disk=NM"), told="", limit="disk", ended=True),
    Bomb("output", "while True: os.write(1, b'y' * 65536)", 0, 1024, ("--limit", "output=NM", "--json"), told="",
         limit="output", ended=True, base=160),
    Bomb("sends that wait", """
def send(n):
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    kept.append(other)
    threading.Thread(target=lambda: one.sendmsg([b"x" * (4 << 20)]), daemon=True).start()
kept = []
raise_files()
upto(N, send)
time.sleep(2)
""", 100, 1000, base=200),
    Bomb("yes | head", """
told = os.popen(f"yes | head -c {N}M | wc -c").read()
print(N if int(told) == N << 20 else told, "all", flush=True)
""", 8, 10_240),
    Bomb("files", "upto(N, lambda n: touch(f'f{n}'))", 0, 1_000_000, ("--limit", "disk-files=none"), each=1500,
         seconds=3000),
    Bomb("files at the limit", "upto(N * 2, lambda n: touch(f'f{n}'))\nos.unlink('f0')", 0, 500_000,
         ("--limit", "disk-files=N"), told="N ENOSPC", limit="disk-files", each=1500, seconds=3000),
    Bomb("symlinks in one directory", "upto(N, lambda n: os.symlink('t', f's{n}'))", 2000, 100_000, each=1500),
    Bomb("symlinks in a chain of directories", """
def one(n):
    for m in range(10):
        os.symlink(f"../{m}", f"s{m}")
    os.mkdir("d")
    os.chdir("d")
upto(N // 10, one)
""", 1000, 100_000, told="n all", each=1500),
    Bomb("deep directory", "upto(N, lambda n: (os.mkdir('d'), os.chdir('d')))\nos.listdir('..')",
         500, 10_000, each=4000),
    Bomb("large directory", """
upto(N, lambda n: touch(f"f{n}"))
for _ in range(20):
    assert sum(1 for _ in os.scandir(".")) == N
""", 1000, 100_000, each=2500),
    Bomb("open and close of directories", """
os.mkdir("d")
upto(N, lambda n: os.close(os.open(("/usr", "d", "/proc/self", "/tmp")[n % 4], os.O_RDONLY)))
""", 2000, 100_000),
    Bomb("descriptors", """
most = raise_files()
children = []
def fill():
    kept = [os.open(("/usr/bin/env", "/usr", "mine")[n % 3], os.O_RDONLY) for n in range(min(N // 10, most - 100))]
    print(len(kept), "open", flush=True)
    time.sleep(600)
touch("mine")
for _ in range(10):
    pipe = os.pipe()
    if os.fork() == 0:
        os.dup2(pipe[1], 1)
        fill()
    os.close(pipe[1])
    assert os.read(pipe[0], 100).split()[1] == b"open"
print(N, "all", flush=True)
""", 500, 100_000),
    Bomb("inotify watches", """
fd = libc.inotify_init()
def one(n):
    touch(f"f{n}")
    if libc.inotify_add_watch(fd, b"f%d" % n, 0xfff) < 0:
        raise OSError(ctypes.get_errno(), "")
upto(N, one)
""", 300, 100_000, each=4000, seconds=1800),
    Bomb("unix sockets", BIND.format("AF_UNIX", 'f"s{n}"'), 200, 10_000, each=6000),
    Bomb("inet sockets", BIND.format("AF_INET", '("127.0.0.1", 0)'), 200, 10_000, each=6000),
    Bomb("events", "upto(N, lambda n: os.close(os.open('/usr/bin/env', os.O_RDONLY)))", 1000, 1_000_000,
         ("--events", "EVENTS"), seconds=1800),
)  # fmt: skip
