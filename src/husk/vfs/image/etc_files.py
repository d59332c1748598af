"""vfs: the files of /etc that are made for the box — who lives here, what it is called, how names are looked up.

Text only; where it is put is the image's business. Nothing of the host's own accounts or resolvers goes in.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Credentials

# The fixed numbers of Debian, most of them the same elsewhere: files below /usr belong to them, and `ls -l` should
# say so. No host file is read for it.
_GROUPS = {
    b"root": 0,
    b"daemon": 1,
    b"bin": 2,
    b"sys": 3,
    b"adm": 4,
    b"tty": 5,
    b"disk": 6,
    b"lp": 7,
    b"mail": 8,
    b"news": 9,
    b"uucp": 10,
    b"man": 12,
    b"proxy": 13,
    b"kmem": 15,
    b"dialout": 20,
    b"fax": 21,
    b"voice": 22,
    b"cdrom": 24,
    b"floppy": 25,
    b"tape": 26,
    b"sudo": 27,
    b"audio": 29,
    b"dip": 30,
    b"www-data": 33,
    b"backup": 34,
    b"operator": 37,
    b"list": 38,
    b"irc": 39,
    b"src": 40,
    b"shadow": 42,
    b"utmp": 43,
    b"video": 44,
    b"sasl": 45,
    b"plugdev": 46,
    b"staff": 50,
    b"games": 60,
    b"users": 100,
    b"nogroup": 65534,
}
_USERS = (
    (b"root", 0, 0, b"/root", b"/bin/bash"),
    (b"daemon", 1, 1, b"/usr/sbin", b"/usr/sbin/nologin"),
    (b"bin", 2, 2, b"/bin", b"/usr/sbin/nologin"),
    (b"sys", 3, 3, b"/dev", b"/usr/sbin/nologin"),
    (b"man", 6, 12, b"/var/cache/man", b"/usr/sbin/nologin"),
    (b"mail", 8, 8, b"/var/mail", b"/usr/sbin/nologin"),
    (b"www-data", 33, 33, b"/var/www", b"/usr/sbin/nologin"),
    (b"nobody", 65534, 65534, b"/nonexistent", b"/usr/sbin/nologin"),
)
_HOSTS = b"127.0.0.1\tlocalhost\n127.0.1.1\t%s\n::1\tlocalhost ip6-localhost ip6-loopback\n"
_NSSWITCH = b"""passwd:         files
group:          files
shadow:         files
gshadow:        files

hosts:          files dns
networks:       files

protocols:      files
services:       files
ethers:         files
rpc:            files

netgroup:       files
"""


def etc_files(
    creds: Credentials, user: bytes, home: bytes, hostname: bytes, resolver: bytes = b""
) -> dict[bytes, bytes]:
    """File name in /etc -> content. `resolver` is the text of resolv.conf, or empty."""
    return {
        b"passwd": _passwd(creds, user, home),
        b"group": _group(creds, user),
        b"hosts": _HOSTS % hostname,
        b"hostname": hostname + b"\n",
        b"resolv.conf": resolver or b"# the box has no resolver unless its policy gives it one\n",
        b"nsswitch.conf": _NSSWITCH,
        b"host.conf": b"multi on\n",
    }


def _passwd(creds: Credentials, user: bytes, home: bytes) -> bytes:
    lines = []
    # First, so that it wins where the guest has a number or name of the fixed list: getpwuid takes the first match.
    lines.append(_account(user, creds.uid, creds.gid, home, b"/bin/bash"))
    lines += [_account(*account) for account in _USERS if account[0] != user and account[1] != creds.uid]
    return b"".join(lines)


def _account(name: bytes, uid: int, gid: int, home: bytes, shell: bytes) -> bytes:
    return b"%s:x:%d:%d:%s:%s:%s\n" % (_field(name), uid, gid, _field(name), _field(home), shell)


def _group(creds: Credentials, user: bytes) -> bytes:
    numbers = {gid: name for name, gid in _GROUPS.items()}
    own = b"" if creds.gid in numbers else b"%s:x:%d:\n" % (_field(user), creds.gid)
    taken = {user} if own else set()
    lines = [own]
    for name, gid in _GROUPS.items():
        if name in taken:
            continue
        member = _field(user) if gid in creds.groups and gid != creds.gid else b""
        lines.append(b"%s:x:%d:%s\n" % (name, gid, member))
    # Numbers without a name make `id` and `groups` complain.
    lines += [
        b"group%d:x:%d:%s\n" % (gid, gid, _field(user))
        for gid in sorted(creds.groups)
        if gid not in numbers and gid != creds.gid
    ]
    return b"".join(lines)


def _field(text: bytes) -> bytes:
    """A colon or newline would start another field or line, that is, another account."""
    if b":" in text or b"\n" in text or b"\0" in text:
        raise ValueError(f"not possible in /etc/passwd: {text!r}")
    return text
