"""Files through the standard library: tempfile, shutil, archives, mmap, locks, sqlite3."""

import fcntl
import glob
import mmap
import os
import pathlib
import shutil
import sqlite3
import stat
import tarfile
import tempfile
import zipfile

folder = tempfile.mkdtemp()
root = pathlib.Path(folder)
print(stat.S_IMODE(os.stat(folder).st_mode) == 0o700)
(root / "a" / "b").mkdir(parents=True)
(root / "a" / "b" / "f").write_text("text")
(root / "l").symlink_to("a")
print(sorted(str(x.relative_to(root)) for x in root.rglob("*")))
print(sorted(glob.glob("**/*", root_dir=folder, recursive=True)))
shutil.copytree(root, folder + "c", symlinks=True)
shutil.make_archive("arch", "zip", folder)
with zipfile.ZipFile("arch.zip") as archive:
    print(sorted(archive.namelist()))
with tarfile.open("t.tar", "w") as tar:
    tar.add(folder, "root")
with tarfile.open("t.tar") as tar:
    print(sorted(tar.getnames()))
shutil.rmtree(folder)
shutil.rmtree(folder + "c")
print(os.path.exists(folder))
with open("m", "w+b") as file:
    file.truncate(8192)
    memory = mmap.mmap(file.fileno(), 8192)
    memory[4096:4100] = b"data"
    memory.flush()
    file.seek(4096)
    print(file.read(4))
    fcntl.lockf(file, fcntl.LOCK_EX)
with tempfile.TemporaryFile() as file:
    file.write(b"x")
    file.seek(0)
    print(file.read(), os.fstat(file.fileno()).st_nlink)
with tempfile.NamedTemporaryFile(dir=".") as file:
    print(os.path.exists(file.name))
base = sqlite3.connect("db")
base.execute("create table t(x)")
base.executemany("insert into t values (?)", [(i,) for i in range(1000)])
base.commit()
print(base.execute("select sum(x) from t").fetchone())
base.close()
print(
    sum(len(files) for _, _, files in os.walk("/usr/lib/python3.11/json"))
    if os.path.isdir("/usr/lib/python3.11")
    else 0
)
print(sorted(entry.name for entry in os.scandir("/") if entry.name in ("usr", "proc", "dev", "tmp")))
print(os.path.realpath("/proc/self/cwd") == os.getcwd())
for name in ("/root/secret", "/etc/shadow"):
    try:
        os.close(os.open(name, os.O_RDONLY))
        print(name, "opened")
    except OSError as error:
        print(type(error).__name__ in ("PermissionError", "FileNotFoundError"))
print(shutil.disk_usage("/").total > 0, os.cpu_count() > 0, len(os.urandom(8)), os.sysconf("SC_NPROCESSORS_ONLN") > 0)
for name in ("t.tar", "arch.zip", "db"):
    os.remove(name)
