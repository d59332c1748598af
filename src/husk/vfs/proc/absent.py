"""vfs: what Linux shows in /proc and husk leaves out, and why. Data only: nothing at run time reads it.

A test compares it with the host's own /proc: a name that is neither shown inside nor listed here is not decided yet.
For /proc/sys the list goes by folder or pattern, since each kernel brings its own few hundred names.
"""

from __future__ import annotations

_MODULES = "labels of the host's security modules; a library that finds none takes them for switched off"
_CHECKPOINT = "for tools that checkpoint processes, with privileges no guest has"
_PHYSICAL = "tells about physical memory, for root only"
_MACHINE = "the machine's hardware and drivers; inside there are none"
_KERNEL = "the host kernel's own data, for root only or for its developers"
_FIREWALL = "the host's filters and tables; a box has none"

# In /proc/PID and /proc/PID/task/TID.
TASK = {
    "attr": _MODULES,
    "autogroup": "the scheduler's groups are those of the caller's sessions",
    "clear_refs": "starts a measurement that pagemap would show",
    "cpu_resctrl_groups": "control of the machine's caches, for root only",
    "latency": "measurements that root switches on",
    "livepatch": "patching of the host kernel",
    "map_files": _CHECKPOINT,
    "make-it-fail": "for testing the host kernel",
    "fail-nth": "for testing the host kernel",
    "numa_maps": "names host files without device and inode, so no guest path can be given for them",
    "pagemap": _PHYSICAL,
    "patch_state": "patching of the host kernel",
    "seccomp_cache": "husk's filter, for root only",
    "stack": "where the host kernel is at, for root only",
    "stack_depth": "for testing the host kernel",
    "syscall": "would show the arguments husk makes a guest call with, the box's cookie among them",
    "timers": _CHECKPOINT,
}

# In /proc/PID/net.
NET = {
    "anycast6": "addresses of a kind no box has",
    "bonding": _MACHINE,
    "connector": _KERNEL,
    "dev_snmp6": "counters per interface; snmp6 has their sum, and there is one interface",
    "fib_triestat": "statistics of a routing table with one route",
    "ip6_flowlabel": "labels for flows that cannot leave the box",
    "ip6_mr_*": "multicast routing, which no box does",
    "ip_mr_*": "multicast routing, which no box does",
    "*_tables_*": _FIREWALL,
    "ip*_hashlimit": _FIREWALL,
    "ipconfig": "how the host got its address",
    "mcfilter*": "multicast filters; nothing reaches a box by multicast",
    "netfilter": _FIREWALL,
    "nf_conntrack*": _FIREWALL,
    "pnp": "how the host got its address",
    "protocols": "sizes of the host kernel's own structures",
    "ptype": "which programs of the host receive raw packets",
    "rpc": "the host's network file systems",
    "rt6_stats": "statistics of a routing table with one route",
    "rt_acct": _KERNEL,
    "sctp": "a protocol no box has",
    "softnet_stat": "the load of the host's network, by processor",
    "stat": "statistics of the host's tables",
    "tls_stat": "counters of a protocol whose offload no box has",
    "vlan": _MACHINE,
    "wireless": _MACHINE,
    "xfrm_stat": _FIREWALL,
    "xt_recent": _FIREWALL,
}

# In /proc itself.
TOP = {
    "acpi": _MACHINE,
    "asound": _MACHINE,
    "bootconfig": _MACHINE,
    "buddyinfo": _PHYSICAL,
    "bus": _MACHINE,
    "config.gz": "how the host kernel was built; husk's answers, not its options, say what works inside",
    "consoles": _MACHINE,
    "crypto": "what the host kernel can encrypt; programs cannot reach it, sockets of that kind are refused",
    "dma": _MACHINE,
    "driver": _MACHINE,
    "dynamic_debug": _KERNEL,
    "fb": _MACHINE,
    "fs": "the host's file systems",
    "interrupts": _MACHINE,
    "iomem": _MACHINE,
    "ioports": _MACHINE,
    "irq": _MACHINE,
    "kallsyms": _KERNEL,
    "kcore": _PHYSICAL,
    "key-users": "the host's keys; keyctl tells of the box's own",
    "keys": "the host's keys; keyctl tells of the box's own",
    "kmsg": "the host kernel's messages",
    "kpage*": _PHYSICAL,
    "latency_stats": _KERNEL,
    "lock_stat": _KERNEL,
    "lockdep*": _KERNEL,
    "mdstat": _MACHINE,
    "modules": "the host kernel's modules",
    "mtrr": _MACHINE,
    "pagetypeinfo": _PHYSICAL,
    "pressure": "how busy the whole host is, and a way to be woken by it",
    "sched_debug": _KERNEL,
    "schedstat": _KERNEL,
    "scsi": _MACHINE,
    "slabinfo": _KERNEL,
    "softirqs": _MACHINE,
    "sysrq-trigger": "commands to the host",
    "sysvipc": "husk would read its own namespace, not the box's; ipcs asks the kernel instead",
    "timer_list": _KERNEL,
    "timer_stats": _KERNEL,
    "tracing": _KERNEL,
    "vmallocinfo": _KERNEL,
}

# In /proc/sys, by pattern of the whole path; the first that fits. What `sysctl` shows is not looked up here.
SYS = {
    "abi/*": "compatibility with 32-bit programs, which are not executed",
    "debug/*": _KERNEL,
    "dev/*": _MACHINE,
    "fs/*": "tuning of the host's file systems, quotas and caches",
    "kernel/*": "how the host is run: its panics, watchdogs, messages, modules, tracing and keys",
    "net/*": "tuning and filters of a network that is a loopback inside",
    "user/*": "limits on namespaces and watches, which are husk's affair",
    "vm/*": "how the host manages its memory; programs cannot tune themselves by it",
    "*": "not known when this was written: a name is shown only after a decision",
}
