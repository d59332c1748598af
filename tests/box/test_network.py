"""The network of a box: loopback of its own, what rules let out, names, and what the host can reach.

Servers of "the outside" are this test's own, on addresses of the host's loopback that the rules name.
"""

from __future__ import annotations

import http.server
import json
import re
import shlex
import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import PATIENCE, PIPE, Result, finish, husk, husk_process, scratch, setting

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

PYTHON = "/usr/bin/python3"
NAMES = {
    "good.test": ["127.0.0.9"],
    "other.test": ["127.0.0.9"],
    "rebound.test": ["169.254.169.254", "127.0.0.1"],
}


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"outside")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def outside() -> Iterator[int]:
    """A web server of the host on 127.0.0.9. Yields its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.9", 0), _Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """husk with NAMES in place of the host's resolver."""
    script = Path(__file__).parent / "with_names.py"
    monkeypatch.setenv("HUSK_CMD", shlex.join([sys.executable, str(script), json.dumps(NAMES)]))


Told = list[dict[str, str]]


def box(*arguments: str, allow: tuple[str, ...] = (), options: tuple[str, ...] = ()) -> tuple[Result, Told]:
    """A run, and what was refused in it."""
    rules = [word for rule in allow for word in ("--allow-net", rule)]
    told = husk(["run", "--json", *options, *rules, "--", *arguments])
    assert told.out, told.err
    result = json.loads(told.out)
    assert not result["faults"], result["faults"][0]
    return Result(result["exit_code"], result["stdout"], result["stderr"]), result["refusals"]


@pytest.mark.needs("python3", "curl")
def test_a_server_and_its_clients_inside() -> None:
    script = """
        cd /tmp && echo hello >page && python3 -m http.server 8000 >/dev/null 2>&1 & server=$!
        for i in $(seq 600); do curl -s -o /dev/null http://127.0.0.1:8000/ && break; sleep 0.05; done
        curl -s http://localhost:8000/page; curl -s http://127.0.0.1:8000/page
        python3 -c 'import urllib.request as u; print(u.urlopen("http://localhost:8000/page").read())'
        kill $server; wait $server; curl -s http://127.0.0.1:8000/page; echo $?
    """
    result, refused = box("/bin/sh", "-c", script)
    assert result.out == "hello\nhello\nb'hello\\n'\n7\n", result.err
    assert refused == []


@pytest.mark.needs("python3")
def test_two_thousand_connections() -> None:
    script = """
        import asyncio, resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
        async def main():
            most = open_now = 0
            async def serve(reader, writer):
                nonlocal most, open_now
                open_now += 1
                most = max(most, open_now)
                writer.write(await reader.readexactly(4))
                await writer.drain()
                await everybody.wait()
                writer.close()
            everybody = asyncio.Event()
            server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
            port = server.sockets[0].getsockname()[1]
            async def client(n):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"%04d" % n)
                answer = await reader.readexactly(4)
                return int(answer), writer
            done = await asyncio.gather(*(client(n) for n in range(2000)))
            print(sorted(n for n, _ in done) == list(range(2000)), most)
            everybody.set()
            for _, writer in done:
                writer.close()
        asyncio.run(main())
    """
    if _descriptors() < 8192:
        pytest.skip("the limit on descriptors is below 8192")
    lines = script.split("\n")[1:]
    result, _ = box(PYTHON, "-c", "\n".join(line[8:] for line in lines))
    assert result.out == "True 2000\n", result.err


def _descriptors() -> int:
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


@pytest.mark.needs("node")
def test_node() -> None:
    script = """
        const http = require('http'), os = require('os');
        console.log(Object.keys(os.networkInterfaces()).join());
        const server = http.createServer((q, a) => a.end('page ' + q.url)).listen(0, async () => {
            const url = 'http://localhost:' + server.address().port;
            console.log(await (await fetch(url + '/x')).text());
            await fetch('http://192.0.2.1/').catch(e => console.log(e.cause.code));
            server.close();
        });
    """
    result, refused = box("node", "-e", script)
    interfaces, rest = result.out.split("\n", 1)
    # A kernel that makes no bridges leaves a box with lo alone.
    assert interfaces == "lo" or (interfaces == "lo,eth0" and setting() != "bare"), result.err
    assert rest == "page /x\nENETUNREACH\n", result.err
    assert [item["allow"] for item in refused] == ["--allow-net 192.0.2.1:80"]


@pytest.mark.needs("redis-server")
def test_redis() -> None:
    script = """
        redis-server --port 6400 --unixsocket /tmp/redis.sock --save '' --dir /tmp >/dev/null &
        for i in $(seq 600); do redis-cli -p 6400 ping 2>/dev/null && break; sleep 0.05; done
        redis-cli -p 6400 set key value; redis-cli -s /tmp/redis.sock get key; redis-cli -p 6400 shutdown; wait
    """
    result, _ = box("/bin/sh", "-c", script)
    assert result.out == "PONG\nOK\nvalue\n", result.err


@pytest.mark.needs("postgres", "psql")
def test_postgres() -> None:
    script = """
        bin=$(dirname "$(readlink -f "$(command -v postgres)")"); cd /tmp
        $bin/initdb -D db -U user -A trust --no-sync >/dev/null
        $bin/pg_ctl -D db -w -o "-p 6500 -k /tmp -c fsync=off" -l log start >/dev/null || cat log
        psql -h 127.0.0.1 -p 6500 -U user -d postgres -Atc 'select 6 * 7'
        psql -h /tmp -p 6500 -U user -d postgres -Atc 'select inet_client_addr() is null'
        $bin/pg_ctl -D db -w -m fast stop >/dev/null
    """
    result, _ = box("/bin/sh", "-c", script)
    assert result.out == "42\nt\n", result.out + result.err


@pytest.mark.needs("openssl", "ssh-keygen", "curl")
def test_keys_and_certificates() -> None:
    """Make keys and a certificate, sign with a key, and let a client trust a server inside by the certificate."""
    script = """
        cd /tmp && ssh-keygen -q -t ed25519 -N '' -C me -f key && echo text >text
        ssh-keygen -q -Y sign -f key -n file text && echo "me $(cat key.pub)" >allowed
        ssh-keygen -Y verify -f allowed -I me -n file -s text.sig <text | cut -d' ' -f1-5
        openssl req -x509 -newkey rsa:2048 -nodes -keyout tls.key -out tls.pem -subj /CN=localhost -days 2 2>/dev/null
        openssl s_server -quiet -accept 4433 -key tls.key -cert tls.pem -WWW & server=$!
        for i in $(seq 600); do curl -s --cacert tls.pem https://localhost:4433/text && break; sleep 0.05; done
        curl -s https://localhost:4433/text; echo untrusted $?; kill $server; wait
    """
    result, refused = box("/bin/sh", "-c", script)
    assert result.out == 'Good "file" signature for me\ntext\nuntrusted 60\n', result.err
    assert refused == []


@pytest.mark.needs("curl")
def test_the_hosts_loopback_is_not_the_boxs(outside: int) -> None:
    for address in ("127.0.0.9", "127.0.0.1", "[::1]", "0.0.0.0"):
        result, _ = box("curl", "-sS", f"http://{address}:{outside}/")
        assert result.status == 7, f"{address}: {result.out}"
    result, _ = box("curl", "-sS", f"http://127.0.0.9:{outside}/", allow=("192.0.2.1", "*"))
    assert result.status == 7, "no rule names it"


@pytest.mark.needs("curl", "python3")
@pytest.mark.usefixtures("names")
def test_rules_and_names(outside: int) -> None:
    allow = (f"good.test:{outside}", f"127.0.0.9:{outside}", "rebound.test")
    script = f"""
        curl -s http://good.test:{outside}/ && echo
        curl -s http://other.test:{outside}/ || echo other $?
        curl -s http://good.test:1/ || echo port $?
        curl -s http://rebound.test/ || echo rebound $?
        curl -s http://169.254.169.254/latest/ || echo metadata $?
        curl -s http://10.1.2.3/ || echo private $?
        {PYTHON} -c 'import urllib.request as u; print(u.urlopen("http://good.test:{outside}/").read())'
        {PYTHON} -c 'import socket; print(socket.getaddrinfo("good.test", 1, type=socket.SOCK_STREAM)[0][4])'
    """
    result, refused = box("/bin/sh", "-c", script, allow=allow)
    wanted = "outside\nother 6\nport 7\nrebound 6\nmetadata 7\nprivate 7\nb'outside'\n('127.0.0.9', 1)\n"
    assert result.out == wanted, result.err
    told = {item["what"]: item for item in refused}
    assert told["look-up of other.test"]["allow"] == "--allow-net other.test"
    assert "private" in told["look-up of rebound.test"]["reason"]
    assert "credentials" in told["connection to 169.254.169.254:80"]["reason"]
    assert told["connection to 10.1.2.3:80"]["allow"] == "--allow-net 10.1.2.3:80"


@pytest.mark.needs("node")
@pytest.mark.usefixtures("names")
def test_node_and_rules(outside: int) -> None:
    script = (
        f"fetch('http://good.test:{outside}/').then(r => r.text()).then(console.log)"
        f".then(() => fetch('http://other.test:{outside}/')).catch(e => console.log(e.cause.code))"
    )
    result, _ = box("node", "-e", script, allow=(f"good.test:{outside}", f"127.0.0.9:{outside}"))
    assert result.out == "outside\nENOTFOUND\n", result.err


def test_metadata_stays_closed_whatever_is_allowed() -> None:
    code = "import socket; socket.create_connection(('169.254.169.254', 80), 60)"
    for rule in ("*", "0.0.0.0/0", "169.0.0.0/8"):
        result, refused = box(PYTHON, "-c", code, allow=(rule,))
        assert result.status == 1 and "PermissionError" in result.err
        assert [item["what"] for item in refused] == ["connection to 169.254.169.254:80"]


def test_denials_win(outside: int) -> None:
    code = f"import socket; socket.create_connection(('127.0.0.9', {outside}), 60)"
    named = ("127.0.0.0/8",)
    assert box(PYTHON, "-c", code, allow=named)[0].status == 0
    result, refused = box(PYTHON, "-c", code, allow=named, options=("--deny-net", "127.0.0.9"))
    assert result.status == 1
    # An address without a rule is on the box's own loopback, which has no listener: that is no refusal.
    assert refused == [] and "ConnectionRefused" in result.err


def test_datagrams_and_the_outside() -> None:
    """Only to addresses that the rules allow; answers are accepted only from addresses the box has sent to."""
    script = """
        import socket, sys
        one, other = (("127.0.0.9", int(port)) for port in sys.argv[1:3])
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(60)
        s.sendto(b"question", one)
        print(s.recvfrom(100)[0], s.recvfrom(100)[1] == one)
        s.sendto(b"question", other)  # no rule names it: that is the box's own loopback, which has no receiver
        c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        c.connect(one)
        c.send(b"again")
        print(c.recv(100))
    """
    servers = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stranger.bind(("127.0.0.1", 0))
    for server in servers:
        server.bind(("127.0.0.9", 0))
        server.settimeout(PATIENCE)
    ports = [str(server.getsockname()[1]) for server in servers]

    def serve() -> None:
        for text in (b"first", b"third"):
            _, who = servers[0].recvfrom(100)
            stranger.sendto(b"from a stranger", who)
            servers[0].sendto(text, who)
            servers[0].sendto(b"second", who)

    thread = threading.Thread(target=serve)
    thread.start()
    lines = "\n".join(line[8:] for line in script.split("\n"))
    result, refused = box(PYTHON, "-c", lines, *ports, allow=(f"127.0.0.9:{ports[0]}",))
    thread.join()
    servers[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        servers[1].recv(100)
    for each in (*servers, stranger):
        each.close()
    assert result.out == "b'first' True\nb'third'\n", result.out + result.err + str(refused)


@pytest.mark.needs("curl", "python3")
def test_publish() -> None:
    with scratch() as place:
        log = place / "events"
        command = ["run", "--events", str(log), "--publish", "0:8000", "--", PYTHON, "-u", "-m", "http.server", "8000"]
        with husk_process(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
            assert running.process.stdout is not None
            assert b"port 8000" in running.process.stdout.readline()
            (told,) = [event for event in map(json.loads, log.read_text().splitlines()) if event["event"] == "publish"]
            assert re.fullmatch(r"127.0.0.1:\d+", told["host"]) and told["guest"] == 8000
            with urllib.request.urlopen(f"http://{told['host']}/", timeout=PATIENCE) as page:
                assert page.status == 200 and b"Directory listing" in page.read()
            running.process.terminate()
            finish(running.process, "a published server", b"", PATIENCE)


def test_without_a_server_callers_are_hung_up_on() -> None:
    with scratch() as place:
        log = place / "events"
        command = ["run", "--events", str(log), "--publish", "0:8000", "--", "/bin/sh", "-c", "echo up; read x"]
        with husk_process(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
            assert running.process.stdout is not None and running.process.stdout.readline() == b"up\n"
            where = re.search(r'"host": "127.0.0.1:(\d+)"', log.read_text())
            assert where is not None
            with socket.create_connection(("127.0.0.1", int(where[1])), PATIENCE) as caller:
                assert caller.recv(10) == b""
            finish(running.process, "a box without a server", b"\n", PATIENCE)


def test_the_whole_network(outside: int) -> None:
    code = f"import socket; print(socket.create_connection(('127.0.0.9', {outside}), 60).getpeername())"
    result, refused = box(PYTHON, "-c", code, options=("--net", "host"))
    assert (result.out, refused) == (f"('127.0.0.9', {outside})\n", []), result.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--net", "some"], "--net some: it is none or host; for something in between use --allow-net."),
        (["--allow-net", "a b"], "--allow-net 'a b': write a domain"),
        (["--allow-net", "1.2.3.4", "--deny-net", "x:y"], "--deny-net x:y: a port is a number"),
        (["--allow-net", "https://pypi.org"], "--allow-net https://pypi.org: that is a URL"),
        (["--deny-net", "x"], "--deny-net takes something away from --allow-net"),
        (["--net", "host", "--allow-net", "x"], "--net host allows everything"),
        (["--publish", "80"], "--publish 80: write HOST:GUEST"),
        (["--publish", "80:0"], "--publish 80:0: write HOST:GUEST"),
    ],
)
def test_mistakes(options: list[str], said: str) -> None:
    result = husk(["run", *options, "--", "/bin/true"])
    assert result.status == 2 and result.err.startswith("husk: " + said) and result.err.count("\n") == 1


# Joins a group and sends a broadcast as most programs do: without naming an interface.
ETH0 = """
import socket
def receiver():
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("", 0)); made.settimeout(10)
    return made
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
member = receiver()
member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.255.1.2") + bytes(4))
for to, at in (("239.255.1.2", member), ("255.255.255.255", receiver()), ("198.51.100.255", receiver()),
               ("198.51.100.1", receiver())):
    sender.sendto(b"hello", (to, at.getsockname()[1]))
    print(to, *at.recvfrom(100)[1][:1])
print([name for _, name in socket.if_nameindex()])
for to in ("198.51.100.2", "192.0.2.1"):
    try: socket.create_connection((to, 80), 5)
    except OSError as error: print(error.errno)
"""


@pytest.mark.needs("python3")
def test_groups_and_broadcasts_on_an_interface_that_leads_nowhere() -> None:
    if setting() == "bare":
        pytest.skip("an interface of a network namespace")
    result, refusals = box(PYTHON, "-c", ETH0)
    if "No such device" in result.err:
        pytest.skip("this kernel makes no bridges")
    groups = "239.255.1.2", "255.255.255.255", "198.51.100.255", "198.51.100.1"
    expected = [f"{to} 198.51.100.1" for to in groups] + ["['lo', 'eth0']", "101", "101"]
    assert result.out.splitlines() == expected, result.err
    assert [each["what"] for each in refusals if each["call"] == "connect"] == [
        "connection to 198.51.100.2:80",
        "connection to 192.0.2.1:80",
    ]
