"""Dockerfiles: how they are read, what they make, what is cached, and what is refused with its line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.images.build import BuildReport
from husk.images.build_layers import LayerMaker
from husk.images.dockerfile.build_context import BuildContext
from husk.images.dockerfile.dockerfile_build import Settings, build_dockerfile
from husk.images.dockerfile.dockerfile_syntax import Dockerfile, Instruction, Words
from husk.images.image_import import import_image
from husk.store.store import Store
from husk.store.store_errors import StoreError, StoreUsageError
from tests.images.archives import everything, lines
from tests.images.hostroot import add_programs
from tests.images.test_command import document, image
from tests.lib import running
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a shell, a few tools and accounts."""
    root = tmp_path_factory.mktemp("root")
    root.chmod(0o755)
    for name in ("usr/bin", "etc", "tmp"):
        (root / name).mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    (root / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n")
    (root / "etc" / "group").write_text("root:x:0:\nstaff:x:50:\n")
    add_programs(root, "sh", "cat", "mkdir", "chown", "id")
    return root


@pytest.fixture
def place(store: Store, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    import_image(store, str(root), "base")
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "state"))
    (tmp_path / "state").mkdir(mode=0o700)
    work = tmp_path / "work"
    (work / "app" / "sub").mkdir(parents=True)
    (work / "app" / "data").write_text("data")
    (work / "app" / "note.log").write_text("log")
    (work / "app" / "sub" / "link").symlink_to("../data")
    (work / "tool").write_text("#!/bin/sh\necho tool\n")
    (work / "tool").chmod(0o755)
    yield work


def built(store: Store, place: Path, text: str, settings: Settings | None = None, *, cache: bool = True) -> BuildReport:
    (place / "Dockerfile").write_text(text)
    maker = LayerMaker(store, namespaces=running.BARE not in running.OPTIONS, use_cache=cache)
    try:
        return build_dockerfile(maker, str(place / "Dockerfile"), str(place), "made", settings)
    finally:
        maker.close()


def cached(report: BuildReport) -> list[bool]:
    return [bool(step["cached"]) for step in report.steps]


# -- reading ----------------------------------------------------------------------------------------------------------
def read(tmp_path: Path, text: str) -> list[tuple[int, str, str]]:
    (tmp_path / "D").write_text(text)
    return [(one.line, one.name, one.rest) for one in Dockerfile(str(tmp_path / "D")).instructions]


def test_lines(tmp_path: Path) -> None:
    text = "# syntax=x\n\n# escape=` is too late here\nfrom a\n\nRUN one \\\n  # between\n\n  two \\  \n three\n"
    text += "#end\nCMD\tx\n"
    assert read(tmp_path, text) == [(4, "FROM", "a"), (6, "RUN", "one   two  three"), (12, "CMD", "x")]
    assert read(tmp_path, "# escape=`\nFROM a\nRUN a `\n b\\\n") == [(2, "FROM", "a"), (3, "RUN", "a  b\\")]
    assert read(tmp_path, "# a comment\n# another\nFROM x \\\n AS y") == [(3, "FROM", "x  AS y")]


def test_here_documents(tmp_path: Path) -> None:
    text = "FROM a\nRUN <<-EOF\n\techo $x\n\tEOF\nRUN cat <<'A' > /x && cat <<B\nin a # \\\nA\nB\nCMD c\n"
    (tmp_path / "D").write_text(text)
    found = Dockerfile(str(tmp_path / "D")).instructions
    assert [one.heredoc for one in found] == [
        None, "echo $x", "cat <<'A' > /x && cat <<B\nin a # \\\nA\nB\n", None,
    ]  # fmt: skip


VARIABLES = {
    "plain": ["plain"], "a  b": ["a", "b"], "$x$y": ["X"], "${x}z": ["Xz"], "${y:-d}": ["d"], "${y-d}": ["d"],
    "${e:-d}": ["d"], "a${e-d}": ["a"], "${x:+s}": ["s"], "a${y:+s}": ["a"], "${y:-${x}}": ["X"], "'$x'": ["$x"],
    '"$x y"': ["X y"], r"\$x": ["$x"], r"a\ b": ["a b"], '"a\\"b\\c"': ['a"b\\c'], "''": [""], "$": ["$"], "$1": ["$1"],
    "${x:?no}": ["X"],
}  # fmt: skip


def test_words_and_variables() -> None:
    said = Instruction("ENV", "", 7, "D")
    words = Words(said, "\\", {"x": "X", "e": ""}.get)
    for text, expected in VARIABLES.items():
        assert words.split(text) == expected, text
    assert words.pairs("""A=1 B="two $x" C='$x'""") == [("A", "1"), ("B", "two X"), ("C", "$x")]
    assert words.pairs("A b  c") == [("A", "b  c")]
    for text, why in (("'x", "never closed"), ("${x", "no variable"), ("${}", "no variable"),
                      ("${x%y}", "not supported"), ("${y:?said why}", "y is not set: said why")):
        with pytest.raises(StoreUsageError, match=f"^D, line 7: .*{why}"):
            words.split(text)


def test_dockerignore(tmp_path: Path) -> None:
    for name in ("a.log", "b.txt", "keep.log", "d/a.log", "d/e/c.txt", "node/x/y", "z/node/q"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".dockerignore").write_text("# no\n*.log\n!keep.log\n/d/**/*.txt\n**/node\nDockerfile\n.dockerignore\n")
    context = BuildContext(str(tmp_path), str(tmp_path / "Dockerfile"))
    said = Instruction("COPY", "", 1, "D")
    found = {one.rel for one in context.files(said, str(tmp_path), "")}
    assert found == {"", "b.txt", "keep.log", "d", "d/a.log", "d/e", "z"}
    assert [name for _, name in context.sources(said, "[bk]*.*")] == ["b.txt", "keep.log"]
    with pytest.raises(StoreUsageError, match=r"no a.log in .* \(.dockerignore names it\)"):
        context.sources(said, "a.log")
    (tmp_path / "Dockerfile.dockerignore").write_text("b.txt\n")
    assert BuildContext(str(tmp_path), str(tmp_path / "Dockerfile")).ignores("b.txt")


def test_a_link_to_what_dockerignore_leaves_out(tmp_path: Path) -> None:
    for name in ("key.pem", "d/key.pem", "d/e"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".dockerignore").write_text("key.pem\nd/key.pem\nl/e\n")
    (tmp_path / "link").symlink_to("key.pem")
    (tmp_path / "l").symlink_to("d")
    context = BuildContext(str(tmp_path), str(tmp_path / "Dockerfile"))
    said = Instruction("COPY", "", 1, "D")
    for name in ("link", "l/key.pem"):
        with pytest.raises(StoreUsageError, match=r"a link to what \.dockerignore leaves out"):
            context.sources(said, name)
    ((path, name),) = context.sources(said, "l")
    assert {one.rel for one in context.files(said, path, name)} == {""}


# -- building ---------------------------------------------------------------------------------------------------------
WHOLE = """
ARG BASE=nothing
FROM ${BASE} AS first
ARG WORD=unused
WORKDIR /src
COPY app ./
RUN echo $WORD $PWD > out; cat data >> out; chown app:staff out
FROM base as skipped
RUN exit 9
FROM base
LABEL by="me and you"
ENV A=1 B=${A:-none}
COPY --from=first --chmod=640 /src/out /srv/
COPY --from=first --chown=app /src /home/app/
COPY ["tool", "/bin/"]
COPY tool app/d* /many/
RUN ["tool"]
WORKDIR /srv
WORKDIR down
USER app
EXPOSE 80 53/udp
ENTRYPOINT ["cat"]
CMD ["/srv/out"]
"""


def test_a_build(store: Store, place: Path) -> None:
    (place / ".dockerignore").write_text("**/*.log\n")
    settings = Settings({"BASE": "base", "WORD": "word"})
    report = built(store, place, WHOLE, settings)
    made = store.images.get("made")
    found = {name: line.split(" ", 3) for name, line in lines(store, made).items()}
    assert found["srv/out"][:2] == ["100640", "1000:50"] and found["srv/out"][3] == "b'word /src\\ndata'"
    assert found["home/app/data"][1] == found["home/app"][1] == "1000:1001" and found["home/app"][0] == "40755"
    assert found["home/app/sub/link"][3] == "-> ../data" and "home/app/note.log" not in found
    assert found["usr/bin/tool"][:3] == ["100755", "0:0", "0"] and found["bin"][3] == "-> usr/bin"
    assert {name for name in found if name.startswith("many")} == {"many", "many/tool", "many/data"}
    assert found["srv/down"][1] == "0:0" and "src" not in found
    config = made.config
    assert (config.entrypoint, config.cmd, config.user, config.workdir) == (["cat"], ["/srv/out"], "app", "/srv/down")
    assert config.env == {"A": "1", "B": "none"} and config.labels == {"by": "me and you"}
    assert cached(report) == [False] * 9 and len(report.layers) == 7
    before = everything(Path(store.place))
    again = built(store, place, WHOLE, settings)
    assert cached(again) == [True] * 9 and again.layers == report.layers
    assert everything(Path(store.place)) == before
    assert cached(built(store, place, WHOLE, Settings({"BASE": "base", "WORD": "other"})))[:3] == [True, True, False]


def test_what_is_done_again(store: Store, place: Path) -> None:
    text = "FROM base\nENV A=1\nCOPY tool /t\nRUN echo $A > /a\n"
    built(store, place, text)
    os.utime(place / "tool", (1, 1))  # a time is no content
    assert cached(built(store, place, text)) == [True, True]
    assert cached(built(store, place, text.replace("A=1", "A=2"))) == [True, False]
    assert cached(built(store, place, text, Settings(allow_net=["example.org:443"]))) == [True, False]
    (place / "tool").chmod(0o700)
    assert cached(built(store, place, text)) == [False, False]
    assert cached(built(store, place, text, cache=False)) == [False, False]


def test_users(store: Store, place: Path) -> None:
    """RUN is the user that USER names, and what it makes is that user's."""
    built(store, place, "FROM base\nUSER app\nWORKDIR /home/app\nRUN id -u > who; ! (echo > /etc/x) 2>/dev/null\n")
    found = {name: line.split(" ", 3) for name, line in lines(store, store.images.get("made")).items()}
    assert found["home/app/who"][1] == found["home/app"][1] == "1000:1001" and "etc/x" not in found
    if running.setting() == "walled":
        assert found["home/app/who"][3] == "b'1000\\n'"


def test_the_command_and_the_run(store: Store, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the file says about starting holds in `husk run --image`."""
    (place / "Other").write_text('FROM base\nARG W\nENV W=$W\nWORKDIR /w\nCMD echo "$W" in $PWD\n')
    monkeypatch.setenv("W", "word")
    words = ["build", str(place), "-f", str(place / "Other"), "--build-arg", "W", "-t", "web"]
    assert "image web, 2 layers" in image(store, *words).stdout
    assert [step["cached"] for step in document(store, *words)["steps"]] == [True]
    run = ["run", "--store", store.place, *running.OPTIONS, "--image", "web"]
    done = husk(run)
    assert (done.out, done.status) == ("word in /w\n", 0)
    assert husk([*run, "--", "/bin/cat", "/etc/group"]).out.startswith("root:")
    assert "no ARG X" in image(store, *words, "--build-arg", "X=1", code=2).stderr
    assert "is for Dockerfiles" in image(store, "build", str(place / "tool"), "--target", "x", code=2).stderr


REFUSED = {
    "ADD x /y": "line 2: ADD is not supported; use COPY",
    "HEALTHCHECK NONE": "line 2: HEALTHCHECK is not supported",
    "VOLUME /x": "line 2: VOLUME is not supported",
    "ONBUILD RUN x": "line 2: ONBUILD is not supported",
    "MAINTAINER me": "line 2: MAINTAINER is not supported; use LABEL",
    "STOPSIGNAL 9": "line 2: STOPSIGNAL is not supported",
    "FETCH x": "line 2: there is no instruction 'FETCH'",
    "\n\nRUN --mount=type=cache,target=/x true": "line 4: RUN --mount is not supported",
    "RUN": "line 2: RUN says nothing",
    "COPY x": "line 2: COPY takes what to copy, and where to",
    "COPY nothing /x": "line 2: there is no nothing in ",
    "COPY ../x /x": "line 2: ../x leads out of the context",
    "COPY out /x": "line 2: out is a link that leads out of the context",
    "COPY --parents x /y": "line 2: COPY --parents is not supported",
    "COPY --chmod=u+x tool /y": "line 2: --chmod=u+x: write octal digits",
    "COPY --chown=nobody tool /y": "'nobody', which is not in its /etc/passwd",
    "COPY --from=none /x /y": "line 2: there is no image 'none' in the store; `husk image pull none` fetches it",
    "COPY --from=base /none /y": "line 2: there is no /none in what is copied from",
    "COPY <<EOF /x\nEOF": "line 2: COPY of a here-document is not supported",
    "RUN <<EOF": "line 2: the here-document never ends",
    "FROM --platform=linux/arm64 base": "line 2: --platform=linux/arm64: a box runs linux/amd64 only",
    "FROM base AS 1x": "line 2: '1x' cannot name a stage",
    "FROM other": "line 2: there is no image 'other' in the store; `husk image pull other` fetches it",
    "EXPOSE http": "line 2: EXPOSE 'http': write a port",
    "SHELL /bin/sh": "line 2: SHELL has the JSON form",
    "ENV A": "line 2: ENV A has no value",
    "LABEL husk.cache=x": "line 2: labels that begin with husk.",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(store: Store, place: Path, text: str) -> None:
    (place / "out").symlink_to("/etc/passwd")
    before = everything(Path(store.place))
    with pytest.raises(StoreUsageError) as caught:
        built(store, place, f"FROM base\n{text}\n")
    assert REFUSED[text] in str(caught.value) and caught.value.exit_code == 2
    assert everything(Path(store.place)) == before


def test_a_run_that_fails(store: Store, place: Path) -> None:
    with pytest.raises(StoreError, match="line 2: RUN ended with 3; if it needs a network, --allow-net HOST:PORT"):
        built(store, place, "FROM base\nRUN exit 3\n")
    with pytest.raises(StoreUsageError, match=r"line 2: RUN cannot start: .*none"):
        built(store, place, 'FROM base\nRUN ["none"]\n')
    with pytest.raises(StoreUsageError, match="RUN stands before the first FROM"):
        built(store, place, "RUN x\n")
    with pytest.raises(StoreUsageError, match="nothing to run it in"):
        built(store, place, "FROM scratch\nRUN x\n")
    assert store.images.list() == ["base"]
    built(store, place, 'FROM base AS x\nCMD ["a"]\nFROM x\nENTRYPOINT ["b"]\n')
    config = store.images.get("made").config
    assert (config.entrypoint, config.cmd) == (["b"], [])  # the base's command was for the base's entry point
    built(store, place, "FROM scratch\nCOPY app /\n")
    assert set(lines(store, store.images.get("made"))) == {"", "data", "note.log", "sub", "sub/link"}
