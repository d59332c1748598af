"""A box that is ready before its run is known: whichever walls the host gives, the run is the one that a new box would
have had, it takes only what fits, and nothing is left."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from husk.cli.run_policy import RunOptions
from husk.kernel.changed_names import ChangedNames
from husk.kernel.kernel import Kernel
from husk.native._core import Call as RawCall
from husk.sandbox import runner
from husk.sandbox.errors import HuskError
from husk.sandbox.policy import TOLD_LATE, Policy
from husk.sandbox.runner import Events, Prepared, Runner
from tests.lib import start_places
from tests.lib.running import until

PROGRAM = "pwd; umask; ls -lan --time-style=+ / /tmp /workspace; cat /proc/mounts /proc/self/limits; exit 3"

OWN_USER = re.compile(rb"\b(?:19|20|21)\d{8}\b")  # without namespaces husk run as root gives each box another


here = start_places.here


def run(words: list[str], prepared: Prepared | None) -> tuple[int, bytes, bytes | None, list[tuple[str, str]]]:
    policy = RunOptions(words).policy
    result = Runner(policy, Events(None, None), keep=1 << 20, prepared=prepared).run()
    assert not result.faults and result.stdout is not None
    return result.exit_code, OWN_USER.sub(b"user", result.stdout), result.stderr, result.changes


@pytest.mark.parametrize("mode", ["", "ro", "rw", "cow"])
def test_the_same_run(here: Path, mode: str) -> None:
    (here / "shown").mkdir()
    (here / "shown" / "file").write_text("text")
    words = ["--mount", f"{here}/shown:/workspace/deep:{mode}", "--workdir", "/workspace/deep"] if mode else []
    words += ["--", "sh", "-c", f"touch new; {PROGRAM}"]
    prepared = Prepared()
    try:
        waited = prepared.standby.pid
        found = run(words, prepared)
        assert prepared.standby.pid == waited and not prepared.standby.waits()
    finally:
        prepared.close()
    (here / "shown" / "new").unlink(missing_ok=True)
    assert found == run(words, None)


@pytest.mark.parametrize("name", ["/etc/ld.so.preload", "/etc/ld.so.cache", "/usr/lib/new"])
def test_a_mounted_file_covers_what_was_looked_up_ahead(here: Path, name: str) -> None:
    (here / "file").write_text("mounted")
    words = ["--mount", f"{here}/file:{name}", "--", "cat", name]
    prepared = Prepared()
    try:
        found = run(words, prepared)
    finally:
        prepared.close()
    assert found[1] == b"mounted" and found == run(words, None)


def test_a_mistake_is_the_same(here: Path) -> None:
    for words in (["--", "no-such-program"], ["--workdir", "/no/such", "--", "true"]):
        said = []
        for prepared in (Prepared(), None):
            with pytest.raises(HuskError) as error:
                run(words, prepared)
            said.append(str(error.value))
            if prepared is not None:
                prepared.close()
        assert said[0] == said[1]


def test_a_box_whose_guest_has_died_is_not_used(here: Path) -> None:
    prepared = Prepared()
    try:
        os.kill(prepared.standby.pid, 9)
        assert until(lambda: not prepared.standby.waits())
        assert run(["--", "echo", "on"], prepared)[1] == b"on\n"
    finally:
        prepared.close()


def test_an_image_that_would_be_another_is_not_used(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared, policy, nothing = Prepared(), RunOptions(["--", "true"]).policy, os.open("/dev/null", os.O_RDWR)
    stdio = nothing, nothing, nothing
    try:
        assert prepared.fits(policy, Events(None, None), stdio)
        assert not prepared.fits(policy, Events(None, None, collect=True), stdio)
        monkeypatch.setattr(runner, "host_sources", list)
        assert not prepared.fits(policy, Events(None, None), stdio)
    finally:
        os.close(nothing)
        prepared.close()


WORDS = {
    "allow_http": ["--allow-http", "GET https://example.com/"], "allow_net": ["--allow-net", "example.com:443"],
    "emulation": ["--as", "gvisor"], "keep": ["--keep", "name"], "limits": ["--limit", "memory=1G"],
    "namespaces": ["--no-namespaces"], "net": ["--net", "host"], "publish": ["--publish", "0:80"],
    "terminal": ["-t"], "interactive": ["-i"], "image": ["--image", "name"], "weaken": ["--weaken", "signals"],
}  # fmt: skip


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_which_options_need_a_box_of_their_own(words: list[str]) -> None:
    assert RunOptions(["--", "true"]).policy.fits_usual_box()
    assert not RunOptions([*words, "--", "true"]).policy.fits_usual_box()


def test_an_attribute_that_is_new_needs_a_box_of_its_own() -> None:
    """What may be told late is listed; whatever else a policy has must be the usual."""
    for name in set(Policy.__slots__) - TOLD_LATE:
        policy = Policy(["true"])
        setattr(policy, name, object())
        assert not policy.fits_usual_box(), name


@pytest.mark.parametrize("mounted", [False, True])
def test_the_first_names_are_known(here: Path, monkeypatch: pytest.MonkeyPatch, mounted: bool) -> None:
    """Every program's dynamic loader asks for them; the C core answers without Python."""
    (here / "shown").mkdir()
    words = [*(["--mount", f"{here}/shown:/workspace/shown"] if mounted else []), "--", "true"]
    answered: list[int] = []
    answer = Kernel.answer

    def note(kernel: Kernel, raw: RawCall) -> None:
        answered.append(raw.nr)
        answer(kernel, raw)

    monkeypatch.setattr(Kernel, "answer", note)
    run(words, None)
    asked, answered[:] = list(answered), []
    prepared = Prepared()
    try:
        run(words, prepared)
    finally:
        prepared.close()
    assert 0 < len(answered) < len(asked) - 1


def _changed(change: str, path: bytes, room: int = 1 << 20) -> ChangedNames:
    changes = ChangedNames(room)
    if change == "opened":
        changes.opened(path, False, 1)
    elif change:
        changes.note(change, path, False)
    return changes


def test_a_run_without_changes_is_not_searched_for_them() -> None:
    """And one with any is."""
    assert _changed("", b"").nothing
    for change in (("metadata", b"/"), ("opened", b"/"), ("opened", b"/a"), ("added", b"/a/b"), ("added", b"/long", 1)):
        assert not _changed(*change).nothing, change
