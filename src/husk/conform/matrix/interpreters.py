"""conform/matrix: the interpreters whose calls say what matters, and a little work for each.

Each script does what scripts do: read and write files, start programs, use pipes, wait, handle a signal; and prints
`ok` when all of it went well. Python and node talk over a socket and use threads besides. Data only.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Interpreter:
    """`flag` stands before the text of a script."""

    name: str
    program: str
    flag: str
    version: tuple[str, ...]
    scripts: tuple[tuple[str, str], ...]  # (what it does, its text)


_NOTHING = ("start and end", "")

_SH_FILES = """
set -e
cd "$(mktemp -d)"
for n in 3 1 2; do echo "line $n" >> a; done
sort a > b && [ "$(head -n 1 b)" = "line 1" ]
mkdir -p d/e && cp b d/e/ && mv d/e/b d/c && ln -s c d/l && [ -L d/l ] && chmod 600 d/c
find d -type f | while read -r name; do test -s "$name"; done
[ "$(cat a | tr a-z A-Z | grep -c LINE)" = 3 ]
rm -r d a b
echo ok
"""
_SH_JOBS = """
trap 'got=1' USR1
(sleep 0.1; kill -USR1 $$) &
wait $! || :
wait
[ "$got" = 1 ] && x=$(cd / && pwd) && [ "$x" = / ] && ulimit -n > /dev/null && echo ok
"""
_BASH_MORE = """
set -euo pipefail
mapfile -t lines < <(printf '%s\\n' b a c | sort)
[[ ${lines[0]} == a && ${#lines[@]} -eq 3 ]]
declare -A table=([one]=1 [two]=2)
read -r -t 5 word _ <<< "${table[two]} rest"
coproc { read -r x; echo "$x!"; }
exec 3<&"${COPROC[0]}" 4>&"${COPROC[1]}"
echo hello >&4
read -r answer <&3
[[ $answer == hello! && $word == 2 && $(date +%Y) -gt 2000 ]]
wait
echo ok
"""
_PYTHON_FILES = """
import json, os, pathlib, shutil, tempfile
place = pathlib.Path(tempfile.mkdtemp())
(place / "a" / "b").mkdir(parents=True)
(place / "a" / "x.json").write_text(json.dumps({"n": 1}))
os.replace(place / "a" / "x.json", place / "a" / "b" / "y.json")
os.symlink("b/y.json", place / "a" / "link")
assert json.loads((place / "a" / "link").read_text()) == {"n": 1}
assert sorted(one.name for one in place.rglob("*")) == ["a", "b", "link", "y.json"]
shutil.copytree(place / "a", place / "copy", symlinks=True)
os.utime(place / "copy", (1, 1))
assert (place / "copy").stat().st_mtime == 1
shutil.rmtree(place)
print("ok")
"""
_PYTHON_WORK = """
import asyncio, mmap, multiprocessing, os, signal, socket, sqlite3, subprocess, tempfile, threading, time
assert subprocess.run(["cat"], input=b"x", capture_output=True, check=True).stdout == b"x"
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.01)
time.sleep(0.05)
threads = [threading.Thread(target=seen.append, args=(2,)) for _ in range(3)]
[one.start() for one in threads]
[one.join() for one in threads]
assert seen == [1, 2, 2, 2]
base = sqlite3.connect(os.path.join(tempfile.mkdtemp(), "x.db"))
base.execute("create table t (n)")
base.execute("insert into t values (7)")
base.commit()
assert base.execute("select n from t").fetchall() == [(7,)]

async def talk():
    async def serve(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello\\n")
    answer = await reader.readline()
    writer.close()
    server.close()
    return answer

assert asyncio.run(talk()) == b"hello\\n"
with mmap.mmap(-1, 4096) as memory:
    memory[:1] = b"x"
queue = multiprocessing.get_context("fork").SimpleQueue()
child = multiprocessing.get_context("fork").Process(target=queue.put, args=("ok",))
child.start()
print(queue.get())
child.join()
"""
_NODE_FILES = """
const fs = require("fs"), os = require("os"), path = require("path");
const place = fs.mkdtempSync(path.join(os.tmpdir(), "x-"));
fs.mkdirSync(path.join(place, "a", "b"), { recursive: true });
fs.writeFileSync(path.join(place, "a", "x.json"), JSON.stringify({ n: 1 }));
fs.renameSync(path.join(place, "a", "x.json"), path.join(place, "a", "b", "y.json"));
fs.symlinkSync("b/y.json", path.join(place, "a", "link"));
if (JSON.parse(fs.readFileSync(path.join(place, "a", "link"), "utf8")).n !== 1) throw new Error("read");
fs.utimesSync(path.join(place, "a"), 1, 1);
if (fs.readdirSync(path.join(place, "a")).length !== 2) throw new Error("list");
fs.promises.readFile(path.join(place, "a", "b", "y.json")).then(() => {
  fs.rmSync(place, { recursive: true });
  console.log("ok");
});
"""
_NODE_WORK = """
const { execFileSync } = require("child_process"), net = require("net"), crypto = require("crypto");
const { Worker } = require("worker_threads");
if (execFileSync("cat", { input: "x" }).toString() !== "x") throw new Error("cat");
crypto.randomBytes(16);
process.on("SIGUSR2", () => {
  const server = net.createServer((one) => one.pipe(one)).listen(0, "127.0.0.1", () => {
    const client = net.connect(server.address().port, "127.0.0.1", () => client.end("hello"));
    client.on("data", (data) => {
      if (data.toString() !== "hello") throw new Error("talk");
      server.close();
      new Worker("require('worker_threads').parentPort.postMessage('ok')", { eval: true }).on("message", (text) => {
        console.log(text);
        process.exit(0);
      });
    });
  });
});
process.kill(process.pid, "SIGUSR2");
setTimeout(() => process.exit(3), 20000);
"""

INTERPRETERS = (
    Interpreter(
        "sh", "sh", "-c", ("dpkg-query", "-W", "-f", "dash ${Version}", "dash"),
        (_NOTHING, ("files", _SH_FILES), ("jobs and signals", _SH_JOBS)),
    ),
    Interpreter(
        "bash", "bash", "-c", ("bash", "--version"),
        (_NOTHING, ("files", _SH_FILES), ("jobs and signals", _SH_JOBS), ("arrays and co-processes", _BASH_MORE)),
    ),
    Interpreter(
        "python", "python3", "-c", ("python3", "--version"),
        (_NOTHING, ("files", _PYTHON_FILES), ("processes, threads, sockets, a database", _PYTHON_WORK)),
    ),
    Interpreter(
        "node", "node", "-e", ("node", "--version"),
        (_NOTHING, ("files", _NODE_FILES), ("processes, threads, sockets", _NODE_WORK)),
    ),
)  # fmt: skip
