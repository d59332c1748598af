"""`husk conform build`: programs from a checkout, what is broken named, what is done not done again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from husk.conform.builders.bazel_graph import SystemLibrary
from husk.conform.builders.gvisor_build import BuildReport, BuildRequest, build_gvisor
from husk.conform.builders.ninja_run import COMPILERS
from husk.conform.builders.program_families import family_of
from husk.conform.builders.system_packages import ABSEIL, BENCHMARK, find_library
from husk.conform.suite_file import read_suite
from husk.sandbox.errors import HuskError, UsageError
from tests.conform.mini_checkout import write_checkouts
from tests.lib.running import husk_command

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="there is no C++ compiler")


class Steps:
    """Counts what ninja did."""

    def __init__(self, stop_after: int = 0) -> None:
        self.done: list[str] = []
        self._stop_after = stop_after

    def __call__(self, done: int, total: int, step: str) -> None:
        self.done.append(step)
        if len(self.done) == self._stop_after:
            raise KeyboardInterrupt


def request(place: Path, target: Path, *filters: str, **changed: str) -> BuildRequest:
    libraries = {name: str(place / name) for name in ("abseil", "googletest", "benchmark")}
    wish = BuildRequest(str(place / "gvisor"), str(target), filters=filters, **libraries)  # type: ignore[arg-type]
    return replace(wish, **changed)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, BuildReport]:
    """The checkouts, the output, the report. Tests that change either make their own."""
    if not any(map(shutil.which, COMPILERS)):
        pytest.skip("there is no C++ compiler")
    place = tmp_path_factory.mktemp("checkouts")
    write_checkouts(place)
    return place, place / "out", build_gvisor(request(place, place / "out"), Steps())


def output_of(program: Path) -> list[str]:
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()


def test_what_can_be_built_is_built_and_runs(built: tuple[Path, Path, BuildReport]) -> None:
    _, out, report = built
    assert report.built == ["open_test", "exec_test"] and report.wanted == 5 and not report.whole
    # The case of a library that nothing refers to is there too.
    assert sorted(output_of(out / "open_test")) == ["Open.Works", "Shared.Case", "joined"]
    # Its helper, a script and a program with a command line of its own are where the program looks.
    assert output_of(out / "exec_test") == ["Exec.Data", "24", "25", "23"]


def test_what_cannot_be_built_is_named_with_the_reason(built: tuple[Path, Path, BuildReport]) -> None:
    report = built[2]
    assert list(report.failed) == ["broken_test"]
    assert "no_such_function" in report.failed["broken_test"] and "broken.cc:2" in report.failed["broken_test"]
    assert report.left_out == {
        "elsewhere_test": "it has no source for this machine",
        "proto_test": "there is no package @com_google_protobuf//",
    }
    assert report.incomplete == {"exec_test": ["//test/app:app is a go_binary, which is not in C or C++"]}


def test_the_suite_file_says_how_to_run_them(built: tuple[Path, Path, BuildReport]) -> None:
    suite = read_suite(built[1])
    assert (suite.name, suite.kind, suite.place) == ("gvisor", "googletest", built[1])
    assert "32BIT:TRUE" in dict(suite.environment)["GVISOR_PLATFORM_SUPPORT"]
    opened, executed = suite.files
    assert (opened.path, opened.family, opened.timeout, opened.skip) == ("open_test", "files", 180, "")
    assert executed.family == "processes" and "add_host_uds" in executed.skip
    assert dict(executed.environment) == {"IOURING_ENABLED": "TRUE"}


@needs_compiler
def test_a_second_build_does_only_what_changed(tmp_path: Path) -> None:
    write_checkouts(tmp_path)
    wish = request(tmp_path, tmp_path / "out", "open")
    first, second, third = Steps(), Steps(), Steps()
    assert build_gvisor(wish, first).whole
    build_gvisor(wish, second)
    assert second.done == [] and not (tmp_path / "out/exec_test").exists()
    source = tmp_path / "gvisor/test/syscalls/linux/open.cc"
    source.write_text(source.read_text().replace("Works", "Changed"))
    assert build_gvisor(wish, third).built == ["open_test"]
    assert len(third.done) == 2 < len(first.done)  # compile and link
    assert "Open.Changed" in output_of(tmp_path / "out/open_test")


@needs_compiler
def test_an_interrupted_build_goes_on(tmp_path: Path) -> None:
    write_checkouts(tmp_path)
    wish = request(tmp_path, tmp_path / "out", "open_test")
    with pytest.raises(KeyboardInterrupt):
        build_gvisor(wish, Steps(stop_after=3))
    assert not (tmp_path / "out/suite.toml").exists()
    rest = Steps()
    assert build_gvisor(wish, rest).built == ["open_test"] and output_of(tmp_path / "out/open_test")
    assert 0 < len(rest.done) < 12


@needs_compiler
def test_a_program_of_an_earlier_build_stays_in_the_suite(tmp_path: Path) -> None:
    write_checkouts(tmp_path)
    build_gvisor(request(tmp_path, tmp_path / "out", "open"), Steps())
    build_gvisor(request(tmp_path, tmp_path / "out", "exec"), Steps())
    assert [file.path for file in read_suite(tmp_path / "out").files] == ["open_test", "exec_test"]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"source": "/nowhere"}, "/nowhere: no directory; name a checkout of gVisor"),
        ({"source": "/proc"}, "/proc has no test/syscalls/linux"),
        ({"abseil": "/proc"}, "no checkout of Abseil"),
        ({"out": "/proc/1/no"}, "name a directory of yours with --out"),
    ],
)
def test_a_wrong_directory_is_one_sentence(
    built: tuple[Path, Path, BuildReport], changed: dict[str, str], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        build_gvisor(request(built[0], built[1], **changed), Steps())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "there is no package //test/syscalls/linux, so it is no checkout"),
        ("cc_binary(", "not in the form of a BUILD file, so it is no checkout"),
        ("", "test/syscalls/linux/BUILD has no cc_binary, so it is no checkout"),
    ],
)
def test_a_checkout_of_another_shape(
    built: tuple[Path, Path, BuildReport], tmp_path: Path, text: str | None, sentence: str
) -> None:
    package = tmp_path / "test/syscalls/linux"
    package.mkdir(parents=True)
    if text is not None:
        (package / "BUILD").write_text(text)
    with pytest.raises(UsageError, match=sentence):
        build_gvisor(request(built[0], tmp_path / "out", source=str(tmp_path)), Steps())


def test_a_program_cannot_take_the_place_of_another_file(built: tuple[Path, Path, BuildReport], tmp_path: Path) -> None:
    package = tmp_path / "test/syscalls/linux"
    package.mkdir(parents=True)
    names = ["suite.toml", "build", "../../outside"]
    (package / "BUILD").write_text("".join(f'cc_binary(name = "{name}", srcs = ["a.cc"])\n' for name in names))
    (package / "a.cc").write_text("int main() {}\n")
    report = build_gvisor(request(built[0], tmp_path / "out", source=str(tmp_path)), Steps())
    assert list(report.left_out) == names and read_suite(tmp_path / "out").files == ()


def test_no_program_fits(built: tuple[Path, Path, BuildReport]) -> None:
    with pytest.raises(UsageError, match="no program fits --filter nothing"):
        build_gvisor(request(built[0], built[1], "nothing"), Steps())


def test_without_tools_or_libraries(
    built: tuple[Path, Path, BuildReport], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(UsageError, match="there is no C"):
        build_gvisor(request(*built[:2]), Steps())
    (tmp_path / "g++").symlink_to("/bin/true")
    with pytest.raises(UsageError, match="ninja is not installed"):
        build_gvisor(request(*built[:2]), Steps())
    (tmp_path / "ninja").symlink_to("/bin/true")
    with pytest.raises(UsageError, match="GoogleTest is not installed; install libgmock-dev"):
        build_gvisor(request(*built[:2], googletest=""), Steps())


def test_the_systems_packages_stand_in_for_checkouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "pkg-config"
    tool.write_text("""#!/bin/sh
case "$*" in
  --list-all) printf 'absl_time  x\\nother  y\\nabsl_base  z\\n' ;;
  '--cflags absl_base absl_time') echo '-std=c++14 -I/a/include' ;;
  '--libs absl_base absl_time') echo '-L/a/lib -labsl_base' ;;
  *) exit 1 ;;
esac
""")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) + ":/usr/bin:/bin")
    links = ("-Wl,--start-group", "-L/a/lib", "-labsl_base", "-Wl,--end-group")
    # The standard is the same for all: theirs is left out.
    assert find_library(ABSEIL, "") == SystemLibrary(("-I/a/include",), links)
    with pytest.raises(UsageError, match="Google Benchmark is not installed; install libbenchmark-dev"):
        find_library(BENCHMARK, "")


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkouts(tmp_path)
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\necho 'as: x.o: No space left on device' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(HuskError, match="is full; free space and run the same command again"):
        build_gvisor(request(tmp_path, tmp_path / "out"), Steps())


def test_the_command_ends_with_one_if_some_are_missing(built: tuple[Path, Path, BuildReport]) -> None:
    place, out, _ = built
    words = [*husk_command(), "conform", "build", "gvisor", "--source", str(place / "gvisor"), "--out", str(out)]
    for name in ("abseil", "googletest", "benchmark"):
        words += [f"--{name}", str(place / name)]
    some = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ)
    assert some.returncode == 1, some.stderr
    assert f"2 of 5 programs are built; the suite is {out}/suite.toml" in some.stdout
    assert "broken_test: " in some.stdout and "exec_test: built without //test/app:app" in some.stdout
    whole = subprocess.run([*words, "--filter", "open", "--json"], capture_output=True, text=True, check=False)
    assert whole.returncode == 0 and json.loads(whole.stdout)["built"] == ["open_test"]


@pytest.mark.parametrize(
    ("program", "family"),
    [
        ("open_test", "files"),
        ("socket_unix_pair_test", "sockets"),
        ("proc_net_unix_test", "proc"),
        ("mmap_test", "memory"),
        ("semaphore_test", "ipc"),
        ("rtsignal_test", "signals"),
        ("vfork_test", "processes"),
        ("clock_gettime_test", "time"),
        ("pty_root_test", "terminals"),
        ("unshare_test", "namespaces"),
        ("never_heard_of_test", "other"),
    ],
)
def test_families(program: str, family: str) -> None:
    assert family_of(program) == family
