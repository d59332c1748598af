"""ps, top, free, lsof, df and their like, and what runtimes ask of /proc and /sys: they find a whole, small machine.

Their numbers differ from run to run, so most tests here compare nothing. They ask: does the tool do its work, does it
see the box's processes and paths, and nothing of the host?
"""

from __future__ import annotations

import os
import re
import socket

import pytest

from tests.lib.harness import differential
from tests.lib.running import husk, setting

pytestmark = pytest.mark.both_settings

NOBODY_ELSE = re.compile(r"husk-(init|loader)|/proc/\d+/root|\.local/state|pytest")


# A child of the shell that is `sleep` already: before its execve it is a second shell.
SLEEPER = "sleep 1000 & until grep -qx sleep /proc/$!/comm; do :; done"


def run(script: str) -> str:
    result = husk(["run", "--", "/bin/sh", "-c", script])
    assert result.status == 0, f"{result.out}\n{result.err}"
    assert not NOBODY_ELSE.search(result.out), result.out
    host = socket.gethostname()
    if host != "husk" and len(host) > 3:
        assert not re.search(rf"\b{re.escape(host)}\b", result.out), "the host's name"
    return result.out


@pytest.mark.needs("ps")
def test_ps() -> None:
    shown = "ps -eo pid,ppid,user,stat,comm,args --no-headers; echo --; ps -eLf --no-headers >all; wc -l <all"
    out = run(f"{SLEEPER}; {shown}; kill $!")
    lines, threads = out.split("--\n")
    found = {line.split()[4]: line.split() for line in lines.splitlines()}
    assert found.keys() == {"sh", "sleep", "ps"} and threads == "3\n"
    assert found["sleep"][1] == found["ps"][1] == found["sh"][0]
    assert {fields[2] for fields in found.values()} == {"user"}
    assert found["sleep"][5:] == ["sleep", "1000"] and found["ps"][3].startswith("R")


@pytest.mark.needs("top", "pgrep", "free", "uptime", "vmstat", "pmap")
def test_procps() -> None:
    out = run(
        f"{SLEEPER}; top -b -n1; pgrep -l sleep; pwdx $!; pmap $! | tail -1; free -b; uptime; vmstat; vmstat -s; "
        "sysctl -n kernel.ostype vm.overcommit_memory; kill $!"
    )
    assert re.search(r"^Tasks: +[34] total", out, re.MULTILINE)
    assert re.search(r"^\d+ sleep$", out, re.MULTILINE) and ": /workspace\n" in out
    assert re.search(r"^ total +\d+K$", out, re.MULTILINE) and "load average:" in out
    memory = re.search(r"^Mem: +(\d+)", out, re.MULTILINE)
    assert memory and int(memory[1]) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert "K total memory" in out and "\nLinux\n" in out


@pytest.mark.needs("pstree", "fuser")
def test_psmisc() -> None:
    out = run(f"exec 7>held; {SLEEPER}; pstree -p $$; fuser held 2>/dev/null; kill $!")
    assert re.search(r"sh\(\d+\).*\n? *[`|]-sleep\(\d+\)", out) and len(re.findall(r"\d+", out.splitlines()[-1])) == 2


@pytest.mark.needs("lsof")
def test_lsof() -> None:
    out = run("exec 7>held; lsof -p $$ 2>/dev/null; true")
    assert re.search(r" 7w +REG .* /workspace/held$", out, re.MULTILINE)
    assert re.search(r" txt +REG .* /usr/bin/dash$", out, re.MULTILINE)
    assert "path dev=" not in out, "mapped files have the device and inode that stat shows"


@pytest.mark.needs("findmnt")
def test_mounts() -> None:
    out = run("findmnt -rno TARGET,FSTYPE; echo --; df --output=target / /dev/shm /proc; echo --; mount")
    tree, free, listed = out.split("--\n")
    kinds = dict(line.split() for line in tree.splitlines())
    assert kinds["/proc"] == "proc" and kinds["/sys"] == "sysfs" and kinds["/dev/shm"] == "tmpfs" and "/" in kinds
    assert free.split()[2:] == ["/", "/dev/shm", "/proc"] or free.split()[-3:] == ["/", "/dev/shm", "/proc"]
    assert "proc on /proc type proc (rw,nosuid,nodev,noexec,relatime)\n" in listed


def test_mount_numbers_agree() -> None:
    """mountinfo, fdinfo and statx call a mount by the same number."""
    script = (
        "import os; fd = os.open('/proc/self/status', 0); "
        "info = [line.split() for line in open('/proc/self/mountinfo')]; "
        "held = dict(line.split(':\\t') for line in open(f'/proc/self/fdinfo/{fd}').read().splitlines()); "
        "proc = next(line for line in info if line[4] == '/proc'); "
        "print(proc[0] == held['mnt_id'], proc[2] == '%d:%d' % ((d := os.fstat(fd).st_dev) >> 8, d & 255))"
    )
    assert run(f'/usr/bin/python3 -c "{script}"') == "True True\n"


@pytest.mark.needs("lscpu")
def test_processors() -> None:
    differential(["/bin/sh", "-c", "nproc; getconf _NPROCESSORS_ONLN; lscpu -e=CPU,CORE,SOCKET,ONLINE"])


@pytest.mark.needs("node")
def test_node() -> None:
    script = (
        "const os = require('os'); console.log(os.cpus().length, os.totalmem(), os.platform(), os.arch(), "
        "os.release(), os.uptime() > 0, os.loadavg().length, os.userInfo().username.length > 0, "
        "os.availableParallelism())"
    )
    differential(["node", "-e", script])


@pytest.mark.needs("java", "javac")
def test_java() -> None:
    source = (
        "public class R { public static void main(String[] a) { Runtime r = Runtime.getRuntime();"
        "System.out.println(r.availableProcessors() + \" \" + (r.maxMemory() > 1 << 20) + \" \""
        " + ProcessHandle.current().info().command().isPresent()); } }"
    )
    differential(["java", "-XX:TieredStopAtLevel=1", "R.java"], tree={"R.java": source})


def test_the_hosts_name_is_not_told() -> None:
    out = run("uname -n; hostname; cat /etc/hostname /proc/sys/kernel/hostname")
    assert out == "husk\n" * 4, setting()
