"""Structures the way a C compiler lays them out: what husk packs, a C program reads back field by field."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from husk.abi.structs import pack_dirent, pack_dirent64, pack_stat, pack_statfs, pack_statx
from husk.vfs.node import Stat
from tests.unit.kernel.natives import compile_c

READER = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

struct linux_dirent { unsigned long d_ino, d_off; unsigned short d_reclen; char d_name[]; };

#define U(field) printf(#field " %llu\n", (unsigned long long)s.field)
#define D(field) printf(#field " %lld\n", (long long)s.field)

static char data[65536];

int main(int argc, char **argv)
{
    size_t n = read(0, data, sizeof data);
    (void)argc;
    if (!strcmp(argv[1], "stat")) {
        struct stat s;
        memcpy(&s, data, sizeof s);
        printf("size %d\n", n == sizeof s);
        U(st_dev); U(st_ino); U(st_mode); U(st_nlink); U(st_uid); U(st_gid); U(st_rdev); D(st_size);
        D(st_blksize); D(st_blocks);
        D(st_atim.tv_sec); D(st_atim.tv_nsec); D(st_mtim.tv_sec);
        D(st_mtim.tv_nsec); D(st_ctim.tv_sec); D(st_ctim.tv_nsec);
    } else if (!strcmp(argv[1], "statx")) {
        struct statx s;
        memcpy(&s, data, sizeof s);
        printf("size %d\n", n == sizeof s);
        U(stx_mask); U(stx_blksize); U(stx_attributes); U(stx_nlink); U(stx_uid); U(stx_gid); U(stx_mode);
        U(stx_ino); U(stx_size); U(stx_blocks); U(stx_attributes_mask);
        D(stx_atime.tv_sec); U(stx_atime.tv_nsec); D(stx_btime.tv_sec); U(stx_btime.tv_nsec);
        D(stx_ctime.tv_sec); U(stx_ctime.tv_nsec); D(stx_mtime.tv_sec); U(stx_mtime.tv_nsec);
        U(stx_rdev_major); U(stx_rdev_minor); U(stx_dev_major); U(stx_dev_minor); U(stx_mnt_id);
    } else if (!strcmp(argv[1], "statfs")) {
        struct statfs s;
        memcpy(&s, data, sizeof s);
        printf("size %d\n", n == sizeof s);
        D(f_type); D(f_bsize); U(f_blocks); U(f_bfree); U(f_bavail); U(f_files); U(f_ffree);
        D(f_namelen); D(f_frsize); D(f_flags);
    } else if (!strcmp(argv[1], "dirent64")) {
        for (size_t at = 0; at < n;) {
            struct dirent64 *d = (void *)(data + at);
            printf("%llu %lld %d %d %s\n", (unsigned long long)d->d_ino, (long long)d->d_off, d->d_reclen, d->d_type,
                   d->d_name);
            at += d->d_reclen;
        }
    } else {
        for (size_t at = 0; at < n;) {
            struct linux_dirent *d = (void *)(data + at);
            printf("%lu %lu %d %d %s\n", d->d_ino, d->d_off, d->d_reclen, ((char *)d)[d->d_reclen - 1], d->d_name);
            at += d->d_reclen;
        }
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(READER, tmp_path_factory.mktemp("c") / "reader")


def read_back(reader: Path, kind: str, data: bytes) -> list[str]:
    done = subprocess.run([reader, kind], input=data, capture_output=True, check=True)
    return done.stdout.decode().splitlines()


def fields(reader: Path, kind: str, data: bytes) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in read_back(reader, kind, data))}


# Every field another value, large enough to need all its bytes; times before 1970 and with nanoseconds.
DEV = os.makedev(0xABC, 0x12345)
FOUND = Stat(
    dev=DEV, ino=(1 << 63) + 2, mode=0o107755, nlink=70_003, uid=4_000_000_004, gid=4_000_000_005,
    rdev=os.makedev(0x123, 0xFEDCB), size=(1 << 62) + 7, blksize=8192, blocks=(1 << 53) + 9,
    atime=-1, mtime=1_700_000_000_123_456_789, ctime=5 * 10**9, btime=(1 << 33) * 10**9 + 999_999_999,
)


def test_stat(reader: Path) -> None:
    assert fields(reader, "stat", pack_stat(FOUND)) == {
        "size": 1, "st_dev": FOUND.dev, "st_ino": FOUND.ino, "st_mode": FOUND.mode, "st_nlink": FOUND.nlink,
        "st_uid": FOUND.uid, "st_gid": FOUND.gid, "st_rdev": FOUND.rdev, "st_size": FOUND.size, "st_blksize": 8192,
        "st_blocks": FOUND.blocks, "st_atim.tv_sec": -1, "st_atim.tv_nsec": 999_999_999,
        "st_mtim.tv_sec": 1_700_000_000, "st_mtim.tv_nsec": 123_456_789, "st_ctim.tv_sec": 5, "st_ctim.tv_nsec": 0,
    }


def test_statx(reader: Path) -> None:
    found = fields(reader, "statx", pack_statx(FOUND))
    assert found == {
        "size": 1, "stx_mask": 0x7FF | 0x800 | 0x1000, "stx_blksize": 8192, "stx_attributes": 0, "stx_nlink": 70_003,
        "stx_uid": FOUND.uid, "stx_gid": FOUND.gid, "stx_mode": FOUND.mode, "stx_ino": FOUND.ino,
        "stx_size": FOUND.size, "stx_blocks": FOUND.blocks, "stx_attributes_mask": 0x2000,
        "stx_atime.tv_sec": -1, "stx_atime.tv_nsec": 999_999_999, "stx_btime.tv_sec": 1 << 33,
        "stx_btime.tv_nsec": 999_999_999, "stx_ctime.tv_sec": 5, "stx_ctime.tv_nsec": 0,
        "stx_mtime.tv_sec": 1_700_000_000, "stx_mtime.tv_nsec": 123_456_789,
        "stx_rdev_major": 0x123, "stx_rdev_minor": 0xFEDCB, "stx_dev_major": 0xABC, "stx_dev_minor": 0x12345,
        "stx_mnt_id": DEV & 0xFFFF,
    }


def test_statx_without_a_time_of_birth_does_not_claim_one(reader: Path) -> None:
    plain = Stat(1, 2, 0o100644, 1, 0, 0, 0, 0, 4096, 0, 0, 0, 0)
    assert fields(reader, "statx", pack_statx(plain))["stx_mask"] & 0x800 == 0


def test_stat_agrees_with_the_hosts_own(reader: Path) -> None:
    """A host file, packed by husk, reads as the host's fstat shows it."""
    host = os.stat("/dev/null")
    packed = pack_stat(Stat(
        host.st_dev, host.st_ino, host.st_mode, host.st_nlink, host.st_uid, host.st_gid, host.st_rdev, host.st_size,
        host.st_blksize, host.st_blocks, host.st_atime_ns, host.st_mtime_ns, host.st_ctime_ns,
    ))
    found = fields(reader, "stat", packed)
    for name in ("st_dev", "st_ino", "st_mode", "st_nlink", "st_uid", "st_gid", "st_rdev", "st_blksize"):
        assert found[name] == getattr(host, name), name
    assert (os.major(found["st_rdev"]), os.minor(found["st_rdev"])) == (1, 3)


def test_statfs(reader: Path) -> None:
    host = SimpleNamespace(f_bsize=512, f_blocks=1 << 50, f_bfree=3, f_bavail=4, f_files=5, f_ffree=6, f_frsize=7)
    found = fields(reader, "statfs", pack_statfs(host, 0x9FA0, fsid=41, flags=0x1027))  # type: ignore[arg-type]
    assert found == {
        "size": 1, "f_type": 0x9FA0, "f_bsize": 512, "f_blocks": 1 << 50, "f_bfree": 3, "f_bavail": 4, "f_files": 5,
        "f_ffree": 6, "f_namelen": 255, "f_frsize": 7, "f_flags": 0x1027,
    }
    assert fields(reader, "statfs", pack_statfs(None, 0x9FA0))["f_namelen"] == 255


@pytest.mark.parametrize("length", [1, 2, 4, 5, 6, 12, 13, 255])
def test_dirents(reader: Path, length: int) -> None:
    """Two records in a row: the second is found only if the first says its true, aligned length."""
    name, kinds = b"n" * length, {0o040000: 4, 0o100000: 8, 0o120000: 10}
    for kind, shown in kinds.items():
        for form, pack, fixed in (("dirent64", pack_dirent64, 19 + 1), ("dirent", pack_dirent, 18 + 2)):
            data = pack(1 << 40, 1 << 33, kind, name) + pack(7, 9, 0o100000, b"z")
            first, second = read_back(reader, form, data)
            size = int(first.split()[2])
            assert first == f"{1 << 40} {1 << 33} {size} {shown} {name.decode()}"
            assert size == -(-(fixed + length) // 8) * 8, "as short as alignment allows, which is how Linux does it"
            assert second.split()[0] == "7" and second.endswith(" 8 z")
