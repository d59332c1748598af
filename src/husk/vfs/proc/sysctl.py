"""vfs: /proc/sys — which settings exist inside, and where the value of each comes from. No guest can change one.

Three kinds: the host's value, where native calls obey it or programs tune themselves by it; a value made for the box,
where the host's would be untrue inside or must not be seen; and everything else, which is absent (`absent` says why,
folder by folder).
"""

from __future__ import annotations

import os

from husk.vfs.synth.synth_tree import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.synth.synth_tree import SynthDir, SynthTree

# Folder -> names whose text is the host's, where the host has the file.
HOST = {
    "crypto": "fips_enabled",
    "fs": (
        "aio-max-nr dir-notify-enable file-max lease-break-time leases-enable mount-max nr_open pipe-max-size "
        "pipe-user-pages-hard pipe-user-pages-soft protected_fifos protected_hardlinks protected_regular "
        "protected_symlinks suid_dumpable"
    ),
    "fs/epoll": "max_user_watches",
    "fs/inotify": "max_queued_events max_user_instances max_user_watches",
    "fs/mqueue": "msg_default msg_max msgsize_default msgsize_max queues_max",
    "kernel": (
        "arch auto_msgmni cap_last_cap max_lock_depth msgmax msgmnb msgmni ngroups_max numa_balancing osrelease ostype "
        "pid_max print-fatal-signals randomize_va_space sched_autogroup_enabled sched_cfs_bandwidth_slice_us "
        "sched_deadline_period_max_us sched_deadline_period_min_us sched_rr_timeslice_ms sched_rt_period_us "
        "sched_rt_runtime_us sem shm_rmid_forced split_lock_mitigate threads-max timer_migration "
        "version"
    ),
    "kernel/pty": "max",
    "kernel/random": "urandom_min_reseed_secs write_wakeup_threshold",
    "kernel/yama": "ptrace_scope",
    "net/core": (
        "busy_poll busy_read default_qdisc dev_weight max_skb_frags netdev_budget netdev_max_backlog optmem_max "
        "rmem_default rmem_max somaxconn wmem_default wmem_max"
    ),
    "net/ipv4": (
        "icmp_echo_ignore_all icmp_echo_ignore_broadcasts igmp_max_memberships ip_default_ttl ip_forward "
        "ip_local_port_range ip_local_reserved_ports ip_no_pmtu_disc ip_nonlocal_bind ip_unprivileged_port_start "
        "ping_group_range tcp_abort_on_overflow tcp_adv_win_scale tcp_allowed_congestion_control tcp_autocorking "
        "tcp_available_congestion_control tcp_base_mss tcp_congestion_control tcp_dsack tcp_ecn tcp_fastopen "
        "tcp_fin_timeout tcp_keepalive_intvl tcp_keepalive_probes tcp_keepalive_time tcp_limit_output_bytes "
        "tcp_low_latency tcp_max_orphans tcp_max_syn_backlog tcp_max_tw_buckets tcp_mem tcp_moderate_rcvbuf "
        "tcp_mtu_probing tcp_no_metrics_save tcp_notsent_lowat tcp_orphan_retries tcp_recovery tcp_reordering "
        "tcp_retries1 tcp_retries2 tcp_rfc1337 tcp_rmem tcp_sack tcp_slow_start_after_idle tcp_syn_retries "
        "tcp_synack_retries tcp_syncookies tcp_timestamps tcp_tw_reuse tcp_window_scaling tcp_wmem udp_mem "
        "udp_rmem_min udp_wmem_min"
    ),
    "net/ipv6": "auto_flowlabels bindv6only ip6frag_time ip_nonlocal_bind",
    "net/ipv6/conf/all": "disable_ipv6 forwarding",
    "net/ipv6/conf/default": "disable_ipv6",
    "net/ipv6/conf/lo": "disable_ipv6",
    "net/unix": "max_dgram_qlen",
    "vm": (
        "admin_reserve_kbytes dirty_background_bytes dirty_background_ratio dirty_bytes dirty_expire_centisecs "
        "dirty_ratio dirty_writeback_centisecs hugetlb_shm_group legacy_va_layout max_map_count memfd_noexec "
        "min_free_kbytes mmap_min_addr nr_hugepages nr_overcommit_hugepages oom_dump_tasks oom_kill_allocating_task "
        "overcommit_kbytes overcommit_memory overcommit_ratio page-cluster panic_on_oom stat_interval swappiness "
        "unprivileged_userfaultfd user_reserve_kbytes vfs_cache_pressure zone_reclaim_mode"
    ),
}

# Made for the box: its own names and numbers; what its filter refuses is shown as switched off.
MADE = {
    "fs/aio-nr": "0",
    "fs/dentry-state": "0\t0\t45\t0\t0\t0",
    "fs/file-nr": "0\t0\t9223372036854775807",
    "fs/inode-nr": "0\t0",
    "fs/inode-state": "0\t0\t0\t0\t0\t0\t0",
    "fs/overflowgid": "65534",
    "fs/overflowuid": "65534",
    "kernel/core_pattern": "core",
    "kernel/core_pipe_limit": "0",
    "kernel/core_uses_pid": "0",
    "kernel/dmesg_restrict": "1",
    "kernel/domainname": "(none)",
    "kernel/io_uring_disabled": "2",
    "kernel/keys/maxbytes": "20000",
    "kernel/keys/maxkeys": "200",
    "kernel/kptr_restrict": "2",
    "kernel/modules_disabled": "1",
    "kernel/overflowgid": "65534",
    "kernel/overflowuid": "65534",
    "kernel/perf_event_paranoid": "4",
    "kernel/printk": "4\t4\t1\t7",
    "kernel/random/entropy_avail": "256",
    "kernel/random/poolsize": "256",
    "kernel/seccomp/actions_avail": "kill_process kill_thread trap errno user_notif trace log allow",
    "kernel/seccomp/actions_logged": "kill_process kill_thread trap errno user_notif trace log",
    "kernel/shmall": "18446744073692774399",  # as kernel/ipc/segments.py tells it
    "kernel/shmmax": "18446744073692774399",
    "kernel/shmmni": "4096",
    "kernel/sysctl_writes_strict": "1",
    "kernel/tainted": "0",
    "kernel/unprivileged_bpf_disabled": "2",
    **{f"user/max_{kind}_namespaces": "0" for kind in ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")},
}
_COUNTERS = (
    "fs/aio-nr",
    "fs/dentry-state",
    "fs/file-nr",
    "fs/inode-nr",
    "fs/inode-state",
    "kernel/random/entropy_avail",
    "kernel/random/poolsize",
    "kernel/seccomp/actions_avail",
)
_READ_ONLY = 0o444
_ROOTS = 0o644  # only root could write it, and there is no root inside


def fill_sys(tree: SynthTree, sys: SynthDir, hostname: bytes) -> None:
    boot_id = _uuid()
    made: dict[bytes, tuple[Callable[[], bytes], int]] = {
        b"kernel/hostname": (_fixed(hostname + b"\n"), _ROOTS),
        b"kernel/random/boot_id": (_fixed(boot_id), _READ_ONLY),
        b"kernel/random/uuid": (_uuid, _READ_ONLY),
    }
    for name, text in MADE.items():
        made[name.encode()] = _fixed(text.encode() + b"\n"), _READ_ONLY if name in _COUNTERS else _ROOTS
    for folder, names in HOST.items():
        for name in names.split():
            path = f"{folder}/{name}".encode()
            try:
                mode = os.stat(b"/proc/sys/" + path).st_mode & 0o777
            except OSError:
                continue  # not in this kernel
            if mode & 0o004:  # what an ordinary user cannot read outside
                made[path] = _host(b"/proc/sys/" + path), mode
    for path in sorted(made):
        here = sys
        *above, last = path.split(b"/")
        for part in above:
            below = here.children.get(part)
            here = below if isinstance(below, type(sys)) else tree.add_dir(here, part)
        tree.add_file(here, last, *made[path])


def _host(path: bytes) -> Callable[[], bytes]:
    return lambda: read_host(path)


def _fixed(text: bytes) -> Callable[[], bytes]:
    return lambda: text


def _uuid() -> bytes:
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])).encode() + b"\n"
