"""Describes a tree completely, in one line per directory: digest.py DIRECTORY [NAME TO LEAVE OUT …].

Each line holds the number of entries and a digest over names, kinds, modes, links, sizes, contents and times. Times of
this century's later years come from the run itself and are left out; so are the sizes of directories.
"""

import hashlib
import os
import stat
import sys

LONG_AGO = 1_600_000_000 * 10**9


def described(path, short, first):
    found = os.lstat(path)
    kind = stat.S_IFMT(found.st_mode)
    parts = [found.st_mode, found.st_mtime_ns if found.st_mtime_ns < LONG_AGO else "now"]
    if kind == stat.S_IFLNK:
        parts.append(os.readlink(path))
    elif kind == stat.S_IFREG:
        parts += [found.st_nlink, found.st_size, first.setdefault((found.st_dev, found.st_ino), short)]
        with open(path, "rb") as file:
            parts.append(hashlib.sha256(file.read()).hexdigest())
    return repr(parts)


def main():
    root, ignored = os.fsencode(sys.argv[1]), set(map(os.fsencode, sys.argv[2:]))
    first = {}
    for where, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in ignored)
        digest = hashlib.sha256()
        names = sorted(folders + [name for name in files if name not in ignored])
        for name in names:
            path = os.path.join(where, name)
            digest.update(repr(name).encode() + described(path, os.path.relpath(path, root), first).encode())
        own = os.lstat(where)
        when = own.st_mtime_ns if own.st_mtime_ns < LONG_AGO else "now"
        place = os.path.relpath(where, root).decode("utf-8", "backslashreplace")
        print(f"{place} {own.st_mode:o} {own.st_nlink} {when} {len(names)} {digest.hexdigest()[:24]}")


main()
