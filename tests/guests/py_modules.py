"""Modules with C parts or with curiosity about the system. Importing is half of the test."""

import ctypes
import decimal
import hashlib
import importlib
import locale
import lzma
import platform
import select
import socket
import sys
import uuid
import xml.etree.ElementTree as ElementTree

NAMES = [
    "argparse", "bz2", "csv", "curses", "email", "getpass", "http.client", "logging", "mmap", "pwd", "readline",
    "runpy", "ssl", "struct", "timeit", "traceback", "unittest", "urllib.request", "zlib", "zoneinfo",
]  # fmt: skip

for name in NAMES:
    importlib.import_module(name)
print(len(NAMES), "modules")
print(hashlib.sha256(b"x").hexdigest()[:8], lzma.decompress(lzma.compress(b"abc" * 100)) == b"abc" * 100)
print(ElementTree.fromstring("<a><b/></a>")[0].tag)
print(ctypes.CDLL(None).getpid() > 0, ctypes.CDLL("libm.so.6").abs(-5), decimal.Decimal(1) / 3)
one, other = socket.socketpair()
one.send(b"x")
print(other.recv(1), select.select([other], [], [], 0))
print(locale.setlocale(locale.LC_ALL, ""))
print(platform.system(), platform.machine(), len(uuid.uuid4().hex))
with open("mod.py", "w") as file:
    file.write("value = 7\n")
sys.path.insert(0, ".")
print(importlib.import_module("mod").value)
