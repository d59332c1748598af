"""The plan husk writes is the plan husk-init reads: a C program with plan.h says where every field is."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

from husk.abi.registry.rules import Walls
from husk.sandbox.start_errors import FILTER_STEP, MARK_STEP, NAMESPACE_STEPS, NEW_CODE_STEP, STEPS
from husk.walls.filter import compile_filter
from husk.walls.ids import BOXES_PER_PROCESS, FIRST_BOX_ID, PIDS, Ids, box_id
from husk.walls.init_plan import (
    ENDED,
    EXEC_FAILED,
    FAILED,
    LIMITS_BYTES,
    LISTENER,
    MAP_IDS,
    PLAN,
    PLAN_MAGIC,
    PRIVATE_NETWORK,
    REAPER,
    REPORT,
    STOPPED,
    SWITCH_USER,
    TERMINAL,
    Order,
    pack,
)
from husk.walls.landlock import landlock_rights
from husk.walls.namespaces import ALL_NAMESPACES, walls_here
from tests.unit.kernel.natives import compile_c

SOURCE = Path(__file__).resolve().parents[3] / "src" / "husk" / "native" / "init"

READER = r"""
#define _GNU_SOURCE
#include <linux/landlock.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "plan.h"

static char data[1 << 20];
#define U(field) printf(#field " %llu\n", (unsigned long long)p->field)
#define O(field) printf("offset." #field " %zu\n", offsetof(struct init_report, field))
#define C(name) printf(#name " %llu\n", (unsigned long long)(name))

int main(void)
{
    size_t n = fread(data, 1, sizeof data, stdin); /* a pipe gives parts */
    const struct init_plan *p = (void *)data;
    printf("sizeof.plan %zu\nsizeof.report %zu\nsize %zu\n", sizeof *p, sizeof(struct init_report), n);
    U(magic); U(flags); U(namespaces); U(uid); U(gid); U(landlock_fs);
    U(landlock_net); U(landlock_scoped); U(landlock_loader); U(landlock_abi);
    U(filter_count); U(filter_offset); U(program_offset); U(argv_count); U(argv_offset); U(envp_count);
    U(envp_offset); U(limit_count); U(reserved); U(mark);
    for (unsigned i = 0; i < p->limit_count; i++)
        printf("limit=%llu %llu %llu\n", (unsigned long long)p->limits[i].resource,
               (unsigned long long)p->limits[i].soft, (unsigned long long)p->limits[i].hard);
    printf("limits.bytes %zu\nlimits.offset %zu\n", sizeof p->limits, offsetof(struct init_plan, limits));
    O(kind); O(a); O(b); O(reserved); O(user_us); O(system_us); O(max_rss_kb); O(when_ns);
    C(PLAN_MAGIC); C(PLAN_SWITCH_USER); C(PLAN_TERMINAL); C(PLAN_PRIVATE_NETWORK);
    C(REPORT_FAILED); C(REPORT_MAP_IDS); C(REPORT_LISTENER); C(REPORT_EXEC_FAILED); C(REPORT_ENDED); C(REPORT_STOPPED);
    C(REPORT_REAPER); C(STEP_MARK); C(STEP_NEW_CODE);
    C(STEP_NAMESPACES); C(STEP_MOUNT); C(STEP_LOOPBACK); C(STEP_HOSTNAME); C(STEP_FILTER); C(STEP_TERMINAL);
    C(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET);
    printf("program=%s\n", data + p->program_offset);
    const char *text = data + p->argv_offset;
    for (unsigned i = 0; i < p->argv_count; i++, text += strlen(text) + 1)
        printf("argv=%s\n", text);
    text = data + p->envp_offset;
    for (unsigned i = 0; i < p->envp_count; i++, text += strlen(text) + 1)
        printf("envp=%s\n", text);
    printf("end %zu\n", text - data);
    return 0;
}
"""


class Plan:
    """What the C side makes of a plan."""

    def __init__(self, reader: Path, data: bytes) -> None:
        done = subprocess.run([reader], input=data, capture_output=True, check=True)
        lines = done.stdout.decode().splitlines()
        self.texts = [line for line in lines if "=" in line]
        self.numbers = {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in lines if "=" not in line}

    def __getitem__(self, name: str) -> int:
        return self.numbers[name]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(READER, tmp_path_factory.mktemp("c") / "reader", f"-I{SOURCE}")


ARGV, ENV, PROGRAM = [b"prog", b"", b"two words"], [b"A=1", b"EMPTY="], b"/bin/prog"
RLIMITS = [(4, 1), (7, 1 << 40)]
MARK = 0x123456789ABCDEF0


def packed(walls: Walls, ids: Ids | None = None) -> bytes:
    program_filter = compile_filter(walls, 0x1122334455667788)
    order = Order("", -1, program_filter, RLIMITS, (0, 1, 2), program=PROGRAM, argv=ARGV, env=ENV, mark=MARK)
    return pack(walls, ids or Ids(user_namespace=walls.user), order)


ALL = Walls(pid=True, net=True, mount=True, ipc=True, user=True, landlock=6)


@pytest.mark.parametrize("walls", [Walls(), ALL], ids=["none", "all"])
def test_every_field_arrives(reader: Path, walls: Walls) -> None:
    ids = Ids(user_namespace=walls.user)
    data = packed(walls, ids)
    plan = Plan(reader, data)
    assert plan["sizeof.plan"] == PLAN.size + LIMITS_BYTES
    assert (plan["limits.offset"], plan["limits.bytes"]) == (PLAN.size, LIMITS_BYTES)
    assert plan["magic"] == PLAN_MAGIC == plan["PLAN_MAGIC"]
    private = plan["PLAN_PRIVATE_NETWORK"] if walls.private_net else 0
    assert plan["flags"] == (plan["PLAN_SWITCH_USER"] if os.geteuid() == 0 else 0) | private
    numbers = plan["PLAN_SWITCH_USER"], plan["PLAN_TERMINAL"], plan["PLAN_PRIVATE_NETWORK"]
    assert numbers == (SWITCH_USER, TERMINAL, PRIVATE_NETWORK)
    assert (plan["uid"], plan["gid"]) == (ids.uid, ids.gid)
    assert plan["namespaces"] == (ALL_NAMESPACES if walls.user else 0)
    assert plan["landlock_abi"] == walls.landlock
    assert plan["landlock_scoped"] == (3 if walls.landlock >= 6 else 0)
    assert (plan["limit_count"], plan["reserved"], plan["mark"]) == (len(RLIMITS), 0, MARK)
    limits = [f"limit={resource} {value} {value}" for resource, value in RLIMITS]
    words = ["program=/bin/prog", "argv=prog", "argv=", "argv=two words", "envp=A=1", "envp=EMPTY="]
    assert plan.texts == limits + words
    assert plan["end"] == plan["size"] == len(data), "nothing behind the last string"


def test_the_filter_is_whole(reader: Path) -> None:
    """Its last instruction lies where the count says, and it is a return."""
    data = packed(Walls())
    plan = Plan(reader, data)
    last = plan["filter_offset"] + 8 * (plan["filter_count"] - 1)
    assert plan["filter_offset"] % 8 == 0
    assert last + 8 == plan["program_offset"]
    assert struct.unpack_from("<HBBI", data, last)[0] == 0x06
    assert 0 < plan["filter_count"] <= 4096, "the kernel takes no more"


def test_constants(reader: Path) -> None:
    plan = Plan(reader, packed(Walls()))
    names = ("FAILED", "MAP_IDS", "LISTENER", "EXEC_FAILED", "ENDED", "STOPPED", "REAPER")
    assert [plan[f"REPORT_{name}"] for name in names] == [
        FAILED, MAP_IDS, LISTENER, EXEC_FAILED, ENDED, STOPPED, REAPER
    ]
    assert plan["STEP_FILTER"] == FILTER_STEP
    needing_namespaces = [plan[f"STEP_{name}"] for name in ("NAMESPACES", "MOUNT", "LOOPBACK", "HOSTNAME")]
    assert sorted(NAMESPACE_STEPS) == sorted(needing_namespaces)
    assert plan["STEP_MARK"] == MARK_STEP
    assert plan["STEP_NEW_CODE"] == NEW_CODE_STEP == len(STEPS) - 1, "a step without words, or words without a step"
    (namespaces,) = [value for name, value in plan.numbers.items() if "CLONE_NEWNS" in name]
    assert namespaces == ALL_NAMESPACES


def test_report(reader: Path) -> None:
    plan = Plan(reader, packed(Walls()))
    assert plan["sizeof.report"] == REPORT.size
    fields = ("kind", "a", "b", "reserved", "user_us", "system_us", "max_rss_kb", "when_ns")
    offsets = [plan[f"offset.{name}"] for name in fields]
    assert offsets == [0, 4, 8, 12, 16, 24, 32, 40]
    values = (ENDED, -1, -2, 3, 1 << 40, 1 << 41, -5, 1 << 42)
    assert REPORT.unpack(struct.pack("<IiiIqqqq", *values)) == values


RIGHTS = [(1, 12), (2, 13), (3, 14), (4, 14), (5, 15), (6, 15), (7, 15), (8, 15), (9, 16), (10, 16)]


@pytest.mark.parametrize(("abi", "highest"), RIGHTS)
def test_landlock_handles_all_rights_of_its_version(abi: int, highest: int) -> None:
    """Landlock allows what it does not handle: a missing bit is a hole. A bit too many means EINVAL and no box."""
    fs, net, scoped, loader = landlock_rights(abi)
    assert fs == (1 << (highest + 1)) - 1
    assert net == (15 if abi >= 10 else 3 if abi >= 4 else 0)
    assert scoped == (3 if abi >= 6 else 0)
    assert loader == 0b101, "execute and read the loader, nothing else"


def test_walls_to_try() -> None:
    every, none = walls_here(namespaces=True), walls_here(namespaces=False)
    for name in ("pid", "net", "mount", "ipc", "user"):
        assert getattr(every, name) and not getattr(none, name)
    assert every.landlock == none.landlock


def test_ids() -> None:
    inside, outside = Ids(user_namespace=True), Ids(user_namespace=False)
    if os.geteuid() == 0:
        assert inside.switch and inside.uid == 1000 and inside.host_uid not in (0, os.getuid())
        assert outside.uid == outside.host_uid, "without a user namespace both numbers are one"
        assert outside.host_uid != inside.host_uid, "no two boxes are the same user"
    else:
        assert not inside.switch
        assert inside.uid == inside.host_uid == outside.uid == os.geteuid()


def test_ids_of_boxes_lie_in_a_range_of_their_own() -> None:
    """Above systemd's container range (0x6FFFFFFF) and below its range for foreign images (0x7FFE0000), for every pid
    Linux can give and every box of one husk."""
    lowest, highest = FIRST_BOX_ID, FIRST_BOX_ID + BOXES_PER_PROCESS * PIDS - 1
    assert 0x6FFFFFFF < lowest <= highest < 0x7FFE0000
    some = [box_id() for _ in range(BOXES_PER_PROCESS)]
    assert len(set(some)) == len(some) and all(lowest <= one <= highest for one in some)
