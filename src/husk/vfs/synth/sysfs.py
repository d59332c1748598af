"""vfs: the little of /sys that runtimes read to count cores, caches, memory nodes and huge pages.

An allow-list of names: their text is the host's, read at open. Nothing else of the host's /sys exists. Devices,
drivers, modules, control groups and firmware are absent or empty on purpose: inside the box there are none.
"""

from __future__ import annotations

import os

from husk.vfs.synth.synth_tree import SynthTree, read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.synth.synth_tree import Fill, SynthDir

_CPU_ALL = (b"isolated", b"kernel_max", b"offline", b"online", b"possible", b"present")
_CPU_PARTS = {
    b"topology": (
        b"cluster_cpus_list",
        b"cluster_id",
        b"core_cpus",
        b"core_cpus_list",
        b"core_id",
        b"core_siblings",
        b"core_siblings_list",
        b"die_cpus",
        b"die_cpus_list",
        b"die_id",
        b"package_cpus",
        b"package_cpus_list",
        b"physical_package_id",
        b"thread_siblings",
        b"thread_siblings_list",
    ),
    b"cpufreq": (
        b"base_frequency",
        b"cpuinfo_cur_freq",
        b"cpuinfo_max_freq",
        b"cpuinfo_min_freq",
        b"scaling_cur_freq",
        b"scaling_governor",
        b"scaling_max_freq",
        b"scaling_min_freq",
    ),
}
_CACHE = (
    b"coherency_line_size",
    b"id",
    b"level",
    b"number_of_sets",
    b"physical_line_partition",
    b"shared_cpu_list",
    b"shared_cpu_map",
    b"size",
    b"type",
    b"ways_of_associativity",
)
_NODE_ALL = (b"has_cpu", b"has_memory", b"has_normal_memory", b"online", b"possible")
_NODE = (b"cpulist", b"cpumap", b"distance", b"meminfo", b"numastat", b"vmstat")
_LEAVES: dict[bytes, tuple[bytes, ...]] = {
    b"devices/system/clocksource/clocksource0": (b"available_clocksource", b"current_clocksource"),
    b"kernel/mm/transparent_hugepage": (b"defrag", b"enabled", b"hpage_pmd_size", b"shmem_enabled", b"use_zero_page"),
}
_LOOPBACK = {
    b"address": b"00:00:00:00:00:00\n",
    b"addr_len": b"6\n",
    b"carrier": b"1\n",
    b"dormant": b"0\n",
    b"flags": b"0x9\n",
    b"ifindex": b"1\n",
    b"iflink": b"1\n",
    b"mtu": b"65536\n",
    b"operstate": b"unknown\n",
    b"tx_queue_len": b"1000\n",
    b"type": b"772\n",
}
# Tools look into these and treat a missing directory as an error. They are empty inside.
_EMPTY = (b"block", b"class/block", b"class/tty", b"dev/block", b"dev/char", b"fs/cgroup", b"kernel/mm/hugepages")


class SysTree(SynthTree):
    fstype = b"sysfs"
    read_only = True
    constant_names = True

    def __init__(self, *, dev: int) -> None:
        super().__init__(dev)
        for path in _EMPTY:
            self._folder(path)
        self._folder(b"devices/system/cpu", self._fill_cpu)
        self._folder(b"devices/system/node", self._fill_node)
        for path, names in _LEAVES.items():
            self._folder(path, self._hosts(path, names))
        loopback = self._folder(b"devices/virtual/net/lo")
        for name, text in _LOOPBACK.items():
            self.add_file(loopback, name, _fixed(text))
        self.add_link(self._folder(b"class/net"), b"lo", b"../../devices/virtual/net/lo")

    def statfs_path(self) -> bytes:
        return b"/sys"

    def _folder(self, path: bytes, fill: Fill | None = None) -> SynthDir:
        """The directory `path`, made with those above it; `fill` is for a new one."""
        here = self._top
        *heads, last = path.split(b"/")
        for name in heads:
            below = here.children.get(name)
            here = below if isinstance(below, type(here)) else self.add_dir(here, name)
        below = here.children.get(last)
        return below if isinstance(below, type(here)) else self.add_dir(here, last, fill=fill)

    # -- the host's ----------------------------------------------------------------------------------------------
    def _hosts(self, path: bytes, names: tuple[bytes, ...]) -> Fill:
        """Fills a directory with those of `names` that the host has, once: hardware stays while a box runs."""

        def fill(directory: SynthDir) -> None:
            for name in names:
                host = b"/sys/" + path + b"/" + name
                if os.path.isfile(host):
                    self.add_file(directory, name, _host(host))

        return fill

    def _fill_cpu(self, directory: SynthDir) -> None:
        base = b"devices/system/cpu"
        self._hosts(base, _CPU_ALL)(directory)
        for cpu in _numbered(base, b"cpu"):
            here = self.add_dir(directory, cpu)
            path = base + b"/" + cpu
            for part, names in _CPU_PARTS.items():
                if os.path.isdir(b"/sys/" + path + b"/" + part):
                    self.add_dir(here, part, fill=self._hosts(path + b"/" + part, names))
            for node in _numbered(path, b"node"):
                self.add_link(here, node, b"../../node/" + node)
            if caches := _numbered(path + b"/cache", b"index"):
                cache = self.add_dir(here, b"cache")
                for index in caches:
                    self.add_dir(cache, index, fill=self._hosts(path + b"/cache/" + index, _CACHE))

    def _fill_node(self, directory: SynthDir) -> None:
        base = b"devices/system/node"
        self._hosts(base, _NODE_ALL)(directory)
        for node in _numbered(base, b"node"):
            here = self.add_dir(directory, node)
            self._hosts(base + b"/" + node, _NODE)(here)
            for cpu in _numbered(base + b"/" + node, b"cpu"):
                self.add_link(here, cpu, b"../../cpu/" + cpu)


def _numbered(path: bytes, stem: bytes) -> list[bytes]:
    """The host's names in `path` that are `stem` and a number, in the order of the number."""
    try:
        names = os.listdir(b"/sys/" + path)
    except OSError:
        return []
    found = [name for name in names if name.startswith(stem) and name[len(stem) :].isdigit()]
    return sorted(found, key=lambda name: int(name[len(stem) :]))


def _host(path: bytes) -> Callable[[], bytes]:
    return lambda: read_host(path)


def _fixed(text: bytes) -> Callable[[], bytes]:
    return lambda: text
