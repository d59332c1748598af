"""Programs started by husk-loader see what programs started by Linux see. Layer: loader alone, no husk."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from .conftest import Bench

LINKS = [
    ("gcc", ("-pie", "-fPIE")),
    ("gcc", ("-no-pie",)),
    ("gcc", ("-static",)),
    ("gcc", ("-static-pie", "-fPIE")),
    ("musl-gcc", ()),
    ("musl-gcc", ("-static",)),
]
IDS = [" ".join((compiler, *flags)) for compiler, flags in LINKS]


def elf(name: str) -> Path:
    """A host program, skipping where it is missing or a script."""
    found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
    path = Path(found).resolve() if found else None
    if path is None or path.read_bytes()[:4] != b"\x7fELF":
        pytest.skip(f"{name} is not an installed ELF program")
    return path


def test_loader_needs_no_relocation(bench: Bench) -> None:
    out = subprocess.run(["readelf", "-rlW", bench.loader], capture_output=True, text=True, check=True).stdout
    assert "no relocations" in out and "INTERP" not in out


def test_refused_by_the_supervisor(bench: Bench) -> None:
    assert bench.loaded(Path("/bin/true"), ["true"], "-F").code == 127


def test_without_a_supervisor(bench: Bench) -> None:
    assert subprocess.run([bench.loader], timeout=60).returncode == 127


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("true", []),
        ("false", []),
        ("echo", ["a", "", "b c"]),
        ("dash", ["-c", "echo $0 $#; exit 3", "zero", "one"]),
        ("bash", ["-c", "set -- $(echo a b); echo $#; kill -TERM $$"]),
        ("ls", ["/proc/self/fd"]),
        ("git", ["--version"]),
        ("node", ["-e", "console.log(process.argv.length, process.title)"]),
        ("java", ["-version"]),
        ("busybox", ["sh", "-c", "echo $((6 * 7))"]),
        ("perl", ["-e", "$0 = 'renamed'; open F, '/proc/self/cmdline'; print <F>"]),
    ],
)
def test_host_programs(bench: Bench, name: str, arguments: list[str]) -> None:
    program = elf(name)
    native = bench.native(program, [name, *arguments])
    loaded = bench.loaded(program, [name, *arguments])
    assert (loaded.code, loaded.out, loaded.err) == (native.code, native.out, native.err)


def test_python_with_libraries(bench: Bench) -> None:
    script = "import ssl, ctypes, sys; print(open('/proc/self/cmdline').read(), sys.executable)"
    argv = ["/usr/bin/python3", "-c", script]
    program = elf("python3")
    assert bench.loaded(program, argv).out == bench.native(program, argv).out != ""


@pytest.mark.parametrize(("compiler", "flags"), LINKS, ids=IDS)
@pytest.mark.parametrize("arguments", [[], ["one"], [str(i) * i for i in range(300)]], ids=["0", "1", "300"])
def test_facts_at_start(bench: Bench, compiler: str, flags: tuple[str, ...], arguments: list[str]) -> None:
    program = bench.guest("report.c", *flags, compiler=compiler)
    for env in ({}, {"A": "1", "LONG": "x" * 5000}):
        native = bench.native(program, ["name", *arguments], env=env)
        loaded = bench.loaded(program, ["name", *arguments], env=env)
        assert loaded.out.splitlines() == native.out.splitlines()
        assert (loaded.code, native.code) == (0, 0)


@pytest.mark.parametrize(("compiler", "flags"), LINKS, ids=IDS)
def test_fixed_addresses(bench: Bench, compiler: str, flags: tuple[str, ...]) -> None:
    program = bench.guest("report.c", *flags, compiler=compiler)
    native = bench.native(program, ["name"])
    for setup, options in (("", ("-R",)), ("setarch -R", ())):
        assert bench.loaded(program, ["name"], *options, setup=setup).out == native.out


def test_randomised_addresses(bench: Bench) -> None:
    program = elf("cat")
    seen = {bench.loaded(program, ["cat", "/proc/self/maps"]).out.split("-")[0] for _ in range(4)}
    assert len(seen) == 4 and all(line.startswith(("55", "56")) for line in seen)


def test_nothing_of_the_loader_remains(bench: Bench) -> None:
    maps = bench.loaded(elf("cat"), ["cat", "/proc/self/maps"]).out
    assert "husk-loader" not in maps
    resident = [line.split()[:2] for line in maps.splitlines() if line.startswith("567f0000")]
    assert resident == [["567f00000000-567f00001000", "r-xp"], ["567f00001000-567f00005000", "rw-p"]]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("arguments", [None, [], ["a"], ["a", "b", ""]], ids=["argc0", "0", "1", "3"])
@pytest.mark.parametrize("old", ["x", "long" * 900], ids=["short", "long"])
@pytest.mark.parametrize("flags", [("-static",), ("-pie", "-fPIE")], ids=["static", "pie"])
def test_prefix(bench: Bench, count: int, arguments: list[str] | None, old: str, flags: tuple[str, ...]) -> None:
    """A script's interpreter starts as if it had been executed with the longer argv by hand."""
    program = bench.guest("report.c", *flags)
    prefix = [f"/p{i}" * (i * 100 + 1) for i in range(count)]
    native = bench.native(program, [*prefix, *(arguments or [])])
    options = [option for string in prefix for option in ("-p", string)]
    argv = [] if arguments is None else [old, *arguments]
    loaded = bench.loaded(program, argv, *options, "-x", str(program))
    if arguments is None and loaded.out.count("argv[") > count:
        pytest.fail("an empty argv must give the prefix alone")
    assert loaded.out.splitlines() == native.out.splitlines()


def test_prefix_before_a_large_argv(bench: Bench) -> None:
    program = bench.guest("report.c", "-pie", "-fPIE")
    arguments = ["y" * 100_000] * 15 + ["z"] * 5000
    native = bench.native(program, ["/bin/interpreter", "-x", "script", *arguments])
    loaded = bench.loaded(program, ["./script", *arguments], "-p", "/bin/interpreter", "-p", "-x", "-p", "script")
    assert loaded.out.splitlines() == native.out.splitlines()


def test_names(bench: Bench) -> None:
    program = bench.guest("report.c", "-static")
    out = bench.loaded(program, ["a"], "-x", "./some/script.sh", "-e", "/guest/exe", "-c", "a-name-of-20-letters").out
    assert "AT_EXECFN ./some/script.sh\n" in out and "comm a-name-of-20-le\n" in out


@pytest.mark.parametrize("flags", [(), ("-static",)], ids=["dynamic", "static"])
def test_cxx(bench: Bench, flags: tuple[str, ...]) -> None:
    program = bench.guest("modern.cpp", *flags, compiler="g++")
    assert bench.loaded(program, ["x"]).out == bench.native(program, ["x"]).out != ""


@pytest.mark.parametrize("links", [(), ("-static",)], ids=["dynamic", "static"])
@pytest.mark.parametrize("stack", ["execstack", "noexecstack"])
def test_executable_stack(bench: Bench, links: tuple[str, ...], stack: str) -> None:
    program = bench.guest("stackcode.c", "-z", stack, *links)
    native, loaded = bench.native(program, ["x"]), bench.loaded(program, ["x"])
    assert (loaded.code, loaded.out) == (native.code, native.out)
    assert loaded.code == (0 if stack == "execstack" else 139)


@pytest.mark.parametrize("flags", [("-pie", "-fPIE"), ("-static-pie", "-fPIE"), ("-static",)], ids=lambda f: f[0])
def test_aligned_segment(bench: Bench, flags: tuple[str, ...]) -> None:
    program = bench.guest("aligned.c", *flags)
    for _ in range(4):
        assert bench.loaded(program, ["x"]).out == "big 0 0 0\n"


@pytest.mark.parametrize("flags", [("-no-pie",), ("-static-pie",)], ids=lambda f: f[0])
def test_registers_at_entry(bench: Bench, flags: tuple[str, ...]) -> None:
    program = bench.guest("entry.S", "-nostdlib", *flags)
    assert (bench.native(program, ["x"]).code, bench.loaded(program, ["x"]).code) == (0, 0)
    assert bench.loaded(program, ["x"], "-p", "odd", "-p", "number", "-p", "of").code == 0


def test_signal_thunks(bench: Bench) -> None:
    out = bench.loaded(bench.guest("thunk.c"), ["x"], "-i", "0", "-x", "fn", "-e", "/guest/exe").out.splitlines()
    entered = "handler ran 1, signal ok 1, info 1, context 1, altstack"
    assert out == [
        "magic 1 version 1 identity 1122334455667788 exe /guest/exe",
        "exe_len 1 execfn fn",
        f"read, bit set: -1 EINTR, {entered} 0",
        f"readv, bit clear: 1 -, {entered} 0",
        f"read, bit set, altstack: -1 EINTR, {entered} 1",
        f"no call: 0 -, {entered} 1",
        f"pause: -1 EINTR, {entered} 1",
        "plain call 6",
        "scratch 4096 bytes",
    ]


def test_header_out_of_band(bench: Bench) -> None:
    """An APE file: a shell script first, the ELF header's bytes known only to the supervisor."""
    shift = 8192
    plain = bytearray(bench.guest("report.c", "-static").read_bytes())
    phoff, phnum = struct.unpack_from("<Q", plain, 32)[0], struct.unpack_from("<H", plain, 56)[0]
    for i in range(phnum):
        at = phoff + i * 56 + 8
        struct.pack_into("<Q", plain, at, struct.unpack_from("<Q", plain, at)[0] + shift)
    struct.pack_into("<Q", plain, 32, phoff + shift)
    stub = b"MZqFpD='\n#'\"\nexec nothing\n".ljust(shift, b"#")
    program, header = bench.work / "ape", bench.work / "ape.header"
    program.write_bytes(stub + bytes(64) + plain[64:])  # the bytes at the ELF's own place are of no use either
    header.write_bytes(plain[:64])
    loaded = bench.loaded(program, ["ape", "arg"], "-h", str(header))
    assert loaded.code == 0
    assert {"AT_PHDR right: 1", "AT_ENTRY right: 1", "cmdline same: 1", "comm ape"} <= set(loaded.out.splitlines())
