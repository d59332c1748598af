"""skills: how much a refusal matters: would have harmed, unexpected, or harmless. Tables of names, first match wins.

`husk skill run --check` fails for the first two levels only. What no row names is unexpected: a new program or host is
for a person to look at. A harmless row is for what ordinary programs look at on every machine and do without.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

HARM, UNEXPECTED, HARMLESS = "would have harmed", "unexpected", "harmless"
FAILING = (HARM, UNEXPECTED)

NOT_LISTED = "not among the programs"
BY_RULE = re.compile(r"the (default )?rule --(hide|deny|protect) ")  # as sandbox.rules.path_rule says it

_DEFAULTS = "defaults of a program that does without them"
_DESKTOP = "a display, a sound server or a bus that is not there"
_ASKS = "it only asks how something is set up"
_KERNEL = "it acts on the kernel"
# (level, why, names). For files a pattern of fnmatch, in which `*` also matches slashes.
FILES: tuple[tuple[str, str, str], ...] = (
    (HARM, "passwords of the machine", "/etc/shadow* /etc/gshadow* /etc/sudoers* /etc/security/opasswd"),
    (HARM, "keys of the machine", "/etc/ssh/*_key /etc/ssl/private* /etc/krb5.keytab /etc/wireguard*"),
    (HARM, "keys of a user", "*/.ssh/* */.ssh */.gnupg/* */.gnupg *.kdbx"),
    (HARM, "passwords and tokens of a user", "*/.aws/* */.netrc */.git-credentials */.kube/* */.docker/config.json"),
    (HARM, "passwords and tokens of a user", "*/.config/gcloud* */.azure/* */.config/gh/* */.npmrc */.pypirc */.env"),
    (HARM, "a browser's data", "*/.mozilla/* */.config/google-chrome* */.config/chromium* */Library/Keychains*"),
    (HARM, "a user's history", "*/.bash_history */.zsh_history */.python_history"),
    (HARM, "command of the machine's services", "/run/docker.sock /var/run/docker.sock /run/containerd* /run/podman*"),
    (HARM, "another process's memory", "/proc/*/mem /proc/*/environ /proc/kcore /dev/mem /dev/kmem"),
    (HARMLESS, "a compiled copy beside a script, which is only a cache", "/skill/*__pycache__*"),
    (HARMLESS, _DEFAULTS, "/etc/gitconfig /etc/gitattributes /etc/npmrc /etc/wgetrc"),
    (HARMLESS, _DEFAULTS, "/etc/pip.conf /etc/xdg/* /etc/curlrc /etc/inputrc"),
    (HARMLESS, _DEFAULTS, "/etc/nanorc /etc/vim* /etc/screenrc /etc/tmux.conf"),
    (HARMLESS, _DEFAULTS, "/etc/profile* /etc/bash* /etc/environment /etc/zsh*"),
    (HARMLESS, _DEFAULTS, "/etc/ImageMagick* /etc/libreoffice* /etc/ghostscript*"),
    (HARMLESS, _DEFAULTS, "/etc/python3* /etc/perl* /etc/ruby* /etc/java* /etc/php*"),
    (HARMLESS, _DEFAULTS, "/etc/R* /etc/papersize /etc/paperspecs /etc/magic*"),
    (HARMLESS, _DEFAULTS, "/etc/lynx* /etc/mailcap /etc/texmf* /etc/matplotlibrc"),
    (HARMLESS, "fonts", "/etc/fonts* /var/cache/fontconfig* /usr/local/share/fonts*"),
    (HARMLESS, "certificates", "/etc/ssl /etc/ssl/certs* /etc/ssl/openssl.cnf /etc/pki* /etc/ca-certificates*"),
    (HARMLESS, "language and time", "/etc/locale* /etc/default/locale /etc/timezone /etc/localtime /etc/adjtime"),
    (HARMLESS, "what machine it is", "/etc/os-release /etc/lsb-release /etc/*_version /etc/*-release /etc/machine-id"),
    (HARMLESS, "what machine it is", "/var/lib/dbus/machine-id /etc/hostname /etc/mime.types /etc/mtab /etc/fstab"),
    (HARMLESS, "how libraries are found", "/etc/ld.so.* /etc/ld-musl* /etc/nsswitch.conf /etc/host.conf /etc/gai.conf"),
    (HARMLESS, _DESKTOP, "/etc/X11* /run/user* /run/dbus* /etc/pulse*"),
    (HARMLESS, _DESKTOP, "/etc/alsa* /etc/asound.conf /etc/dconf* /run/udev*"),
    (HARMLESS, _DESKTOP, "/run/systemd* /etc/vulkan* /etc/glvnd* /run/nscd*"),
    (HARMLESS, _DESKTOP, "/var/run/nscd* /var/run/dbus* /etc/OpenCL*"),
)  # fmt: skip
PROGRAMS: tuple[tuple[str, str, str], ...] = (
    (HARM, "it takes another user's rights", "sudo su doas pkexec runuser setpriv newgrp"),
    (HARM, "it changes the machine", "mount umount insmod modprobe rmmod reboot shutdown poweroff halt kexec"),
    (HARM, "it changes the machine", "systemctl service crontab at useradd usermod userdel passwd chpasswd visudo"),
    (HARM, "it changes the machine", "iptables nft ip6tables sysctl mkfs mkfs.ext4 fdisk parted swapon losetup"),
    (HARM, "it starts what no box holds", "docker podman nerdctl ctr nsenter unshare chroot systemd-run"),
    (HARM, "it opens a way out", "ssh scp sftp nc ncat netcat socat telnet"),
    (HARM, "it reads secrets", "gpg gpg2 secret-tool pass security"),
    (HARMLESS, _ASKS, "gpgconf fc-list fc-match fc-cache locale lsb_release ldconfig"),
    (HARMLESS, _ASKS, "getconf tput dircolors infocmp xdg-mime"),
    (HARMLESS, _ASKS, "paperconf pkg-config"),
)  # fmt: skip
CALLS: tuple[tuple[str, str, str], ...] = (
    (HARM, _KERNEL, "init_module finit_module delete_module kexec_load kexec_file_load reboot bpf acct"),
    (HARM, _KERNEL, "swapon swapoff quotactl iopl ioperm settimeofday clock_settime adjtimex"),
    (HARM, "it changes what is mounted", "mount umount2 pivot_root move_mount fsopen fsmount open_tree mount_setattr"),
    (HARM, "it reads another process", "process_vm_readv process_vm_writev process_madvise kcmp"),
    (HARM, "it leaves the box's namespaces", "setns open_by_handle_at"),
    (HARMLESS, "programs do without it", "io_uring_setup io_uring_enter io_uring_register userfaultfd perf_event_open"),
    (HARMLESS, "programs do without it", "add_key keyctl request_key mbind set_mempolicy get_mempolicy migrate_pages"),
    (HARMLESS, "programs do without it", "memfd_secret pkey_alloc map_shadow_stack"),
    (HARMLESS, "programs do without it", "lookup_dcookie sched_setscheduler sched_setattr ioprio_set setpriority"),
)  # fmt: skip
HOSTS: tuple[tuple[str, str, str], ...] = (
    (HARM, "a cloud machine's own secrets are served there", "169.254.169.254* 100.100.100.200* metadata.google.*"),
)  # fmt: skip
NETWORK = ("connect", "sendto", "sendmsg", "sendmmsg", "look up", "lookup")


@dataclass(frozen=True)
class Judged:
    """A refusal with its level, and the row's reason for it."""

    what: str
    reason: str
    level: str
    why: str

    @property
    def fails(self) -> bool:
        return self.level in FAILING

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"

    def as_dict(self) -> dict[str, object]:
        return {"what": self.what, "reason": self.reason, "level": self.level, "why": self.why}


def judge(refusal: dict[str, object]) -> Judged:
    what, call, reason = str(refusal["what"]), str(refusal["call"]), str(refusal["reason"])
    level, why = _level(what, call, reason)
    return Judged(what, reason, level, why)


def _level(what: str, call: str, reason: str) -> tuple[str, str]:
    if NOT_LISTED in reason:
        found = _named(PROGRAMS, what.rsplit("/", 1)[-1])
        return found or (UNEXPECTED, "a program that the manifest does not list")
    if what.startswith("/"):
        if found := _matching(FILES, what):
            return found
        if BY_RULE.search(reason):
            return HARM, "a rule keeps this name from every box"
        return UNEXPECTED, "a file that the box does not give"
    if call in NETWORK or "connection" in what or "look-up" in what:
        address = what.rsplit(" ", 1)[-1]
        return _matching(HOSTS, address) or (UNEXPECTED, "a host that the manifest does not list")
    found = _named(CALLS, call)
    return found or (UNEXPECTED, "a call that the box does not do")


def _named(rows: tuple[tuple[str, str, str], ...], name: str) -> tuple[str, str] | None:
    return next(((level, why) for level, why, names in rows if name in names.split()), None)


def _matching(rows: tuple[tuple[str, str, str], ...], name: str) -> tuple[str, str] | None:
    for level, why, patterns in rows:
        if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
            return level, why
    return None
