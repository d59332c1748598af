"""Layer abi: the ioctl commands a guest may use, grouped by what they act on.

An allow-list, because the same number space holds commands that reach beyond the descriptor. NEVER names the ones that
must not be added. It is only printed: whatever is not on a list is refused.
"""

from __future__ import annotations

TERMINAL = {
    "TCGETS": 0x5401,
    "TCSETS": 0x5402,
    "TCSETSW": 0x5403,
    "TCSETSF": 0x5404,
    "TCGETA": 0x5405,
    "TCSETA": 0x5406,
    "TCSETAW": 0x5407,
    "TCSETAF": 0x5408,
    "TCSBRK": 0x5409,
    "TCXONC": 0x540A,
    "TCFLSH": 0x540B,
    "TIOCEXCL": 0x540C,
    "TIOCNXCL": 0x540D,
    "TIOCSCTTY": 0x540E,
    "TIOCGPGRP": 0x540F,
    "TIOCSPGRP": 0x5410,
    "TIOCOUTQ": 0x5411,  # also SIOCOUTQ
    "TIOCGWINSZ": 0x5413,
    "TIOCSWINSZ": 0x5414,
    "TIOCNOTTY": 0x5422,
    "TIOCGETD": 0x5424,
    "TCSBRKP": 0x5425,
    "TIOCSBRK": 0x5427,
    "TIOCCBRK": 0x5428,
    "TIOCGSID": 0x5429,
    "TCGETS2": 0x802C542A,
    "TCSETS2": 0x402C542B,
    "TCSETSW2": 0x402C542C,
    "TCSETSF2": 0x402C542D,
    "TIOCGDEV": 0x80045432,
    "TIOCGEXCL": 0x80045440,
}

# These work only for the holder of a pseudo-terminal's master side.
PSEUDO_TERMINAL = {
    "TIOCPKT": 0x5420,
    "TIOCGPTN": 0x80045430,
    "TIOCSPTLCK": 0x40045431,
    "TIOCSIG": 0x40045436,
    "TIOCGPKT": 0x80045438,
    "TIOCGPTLCK": 0x80045439,
}

# Opens a file, which Landlock forbids a guest, so husk opens it.
PEER = {"TIOCGPTPEER": 0x5441}

DESCRIPTOR = {
    "FIONREAD": 0x541B,  # also TIOCINQ and SIOCINQ
    "FIONBIO": 0x5421,
    "FIONCLEX": 0x5450,
    "FIOCLEX": 0x5451,
    "FIOASYNC": 0x5452,
    "FIOQSIZE": 0x5460,
}

FILE = {
    "FIGETBSZ": 0x2,
    "FICLONE": 0x40049409,
    "FICLONERANGE": 0x4020940D,
    "FS_IOC_GETFLAGS": 0x80086601,
    "FS_IOC_GETVERSION": 0x80087601,
    "F2FS_IOC_GET_FEATURES": 0x8004F50C,  # SQLite asks it of every database; ENOTTY on another file system
}

# By device that a box was given: the types of its commands, the second byte. The host's drivers have hundreds, and add
# more. On any other descriptor that a guest can hold, commands of these types are ENOTTY.
DEVICE_TYPES = {
    "kvm": {"KVM's": 0xAE00},
    "dri": {"DRM's": 0x6400, "DMA-BUF's": 0x6200, "sync_file's": 0x3E00},
    "nvidia": {"NVIDIA's": 0x4600, "UVM's": 0x0000},
}

# They tell where on the host's disk a file lies, and its owner may change that through a read-only descriptor. Refused
# with the errno of file systems that lack them.
PLACES = {"FIEMAP": 0xC020660B, "FIDEDUPERANGE": 0xC0189436}

SOCKET = {
    "SIOCATMARK": 0x8905,
    "SIOCGSTAMP": 0x8906,
    "SIOCGSTAMPNS": 0x8907,
    "SIOCGPGRP": 0x8904,
    "FIOGETOWN": 0x8903,
}

# The owner gets SIGIO (or any signal, with F_SETSIG): a way to signal, so it needs the same wall as kill.
OWNER = {"FIOSETOWN": 0x8901, "SIOCSPGRP": 0x8902}

# Answered for any socket, AF_UNIX included, from the network namespace the socket was made in.
INTERFACE = {
    "SIOCGIFNAME": 0x8910,
    "SIOCGIFCONF": 0x8912,
    "SIOCGIFFLAGS": 0x8913,
    "SIOCGIFADDR": 0x8915,
    "SIOCGIFDSTADDR": 0x8917,
    "SIOCGIFBRDADDR": 0x8919,
    "SIOCGIFNETMASK": 0x891B,
    "SIOCGIFMETRIC": 0x891D,
    "SIOCGIFMTU": 0x8921,
    "SIOCGIFHWADDR": 0x8927,
    "SIOCGIFINDEX": 0x8933,
    "SIOCGIFTXQLEN": 0x8942,
    "SIOCGIFMAP": 0x8970,
    "SIOCETHTOOL": 0x8946,  # what sets anything wants CAP_NET_ADMIN
}

# What a pidfd tells: numbers and ids are the host's, so husk asks. The size of the answer has grown over time, and is
# part of the command.
PROCESS = {"PIDFD_GET_INFO": 0xC048FF0B, "PIDFD_GET_INFO (first)": 0xC040FF0B, "PIDFD_GET_INFO (third)": 0xC050FF0B}

# One mapping of /proc/PID/maps, which husk makes up.
MAPS = {"PROCMAP_QUERY": 0xC0686611}

# TIOCSTI and TIOCLINUX type into a terminal (no guest holds the person's, and this is the second wall), TIOCCONS takes
# the console's output, TIOCSETD loads line-discipline modules, FS_IOC_SETFLAGS changes a file through a read-only
# descriptor, SIOCGSKNS and the NS_GET_ commands hand out namespaces.
NEVER = {
    "TIOCSTI": 0x5412,
    "TIOCLINUX": 0x541C,
    "TIOCCONS": 0x541D,
    "TIOCSETD": 0x5423,
    "TIOCVHANGUP": 0x5437,
    "FS_IOC_SETFLAGS": 0x40086602,
    "SIOCGSKNS": 0x894C,
    "NS_GET_USERNS": 0xB701,
    "NS_GET_PARENT": 0xB702,
}

ANYWHERE = {**TERMINAL, **PSEUDO_TERMINAL, **DESCRIPTOR, **FILE, **SOCKET}
