"""BUILD files are read as data: the shapes husk knows, and nothing of the rest is executed or believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from husk.conform.builders import bazel_files
from husk.conform.builders.bazel_files import BuildFileError, Reading, Rule, build_file, read_build_file
from husk.conform.builders.bazel_graph import Graph, Label, Unbuildable
from husk.conform.builders.ninja_file import NinjaFile


def rules(place: Path, text: str, **reading: object) -> dict[str, Rule]:
    (place / "BUILD").write_text(text)
    return {rule.name: rule for rule in read_build_file(place / "BUILD", Reading(**reading))}  # type: ignore[arg-type]


def sources(place: Path, expression: str, **reading: object) -> list[str]:
    return rules(place, f"cc_library(name = 'one', srcs = {expression})", **reading)["one"].words("srcs")


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ('["a.cc", "b.cc"]', ["a.cc", "b.cc"]),
        ('["a.cc"] + ["b" + ".cc"]', ["a.cc", "b.cc"]),
        ('["a.cc"] + unknown() + UNKNOWN + ["b.cc"]', ["a.cc", "b.cc"]),
        ('select({":windows": ["w.cc"], "//conditions:default": ["l.cc"]})', ["l.cc"]),
        ('["a.cc"] + select({":here": ["h.cc"], "//conditions:default": ["l.cc"]})', ["a.cc", "h.cc"]),
        ('select({":windows": ["w.cc"]}) + ["a.cc"]', ["a.cc"]),
        ('["a.cc"] if version() != None else ["b.cc"]', ["b.cc"]),
        ('macro(linux = ["m.cc"])', ["m.cc"]),
        ("[name for name in open('/etc/passwd')]", []),
        ("__import__('os').listdir('/')", []),
        ("(" * 90 + '["a.cc"]' + ")" * 90, ["a.cc"]),
        ("3", []),
    ],
)
def test_expressions(tmp_path: Path, expression: str, words: list[str]) -> None:
    macros = {"macro": lambda given: given["linux"]}
    assert sources(tmp_path, expression, conditions=frozenset({":here"}), macros=macros) == words


def test_too_deep(tmp_path: Path) -> None:
    with pytest.raises(BuildFileError, match="nested too deeply"):
        sources(tmp_path, '["a.cc"]' + ' + ["b.cc"]' * 500)
    with pytest.raises(BuildFileError, match="not in the form of a BUILD file"):
        sources(tmp_path, "(" * 100_000)


def test_globs(tmp_path: Path) -> None:
    for name in ("a.cc", "b.h", "deep/c.cc", "deep/er/d.cc", "package/e.cc", "package/BUILD", "axcc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert sources(tmp_path, 'glob(["*.cc"])') == ["a.cc"]
    assert sources(tmp_path, 'glob(["**/*.cc"])') == ["a.cc", "deep/c.cc", "deep/er/d.cc"]
    assert sources(tmp_path, 'glob(["deep/**"], exclude = ["**/d.cc"])') == ["deep/c.cc"]
    assert sources(tmp_path, 'glob(include = ["../*"])') == []


def test_a_glob_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bazel_files, "MOST_FOUND", 3)
    for number in range(5):
        (tmp_path / f"{number}.cc").write_text("")
    with pytest.raises(BuildFileError, match="more than 3 files"):
        sources(tmp_path, 'glob(["*.cc"])')


def test_other_calls_are_no_rules(tmp_path: Path) -> None:
    found = rules(tmp_path, 'load("//x:y.bzl", "z")\npackage(a = 1)\nstrange_rule(name = "s")\nfor x in []: pass\n')
    assert [(rule.kind, rule.name) for rule in found.values()] == [("strange_rule", "s")]


def test_wrong_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BuildFileError, match="line 1: not in the form"):
        rules(tmp_path, "cc_library(")
    with pytest.raises(BuildFileError, match="not in the form"):
        rules(tmp_path, "\0")
    with pytest.raises(BuildFileError, match="No such file"):
        read_build_file(tmp_path / "missing", Reading())
    monkeypatch.setattr(bazel_files, "MOST_BYTES", 10)
    with pytest.raises(BuildFileError, match="larger than"):
        rules(tmp_path, "#" * 11)
    assert build_file(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (":b", Label("r", "p/q", "b")),
        ("b", Label("r", "p/q", "b")),
        ("//x/y", Label("r", "x/y", "y")),
        ("//x/y:z", Label("r", "x/y", "z")),
        ("@s//x/y", Label("s", "x/y", "y")),
        ("@@s//:z", Label("s", "", "z")),
        ("@re2", Label("re2", "", "re2")),
    ],
)
def test_labels(text: str, label: Label) -> None:
    assert Label.parse(text, Label("r", "p/q", "a")) == label


def graph(place: Path, text: str) -> Graph:
    (place / "BUILD").write_text(text)
    (place / "a.cc").write_text("")
    return Graph({"": place}, {}, Reading())


def test_libraries_come_before_what_they_need(tmp_path: Path) -> None:
    found = graph(
        tmp_path,
        """
cc_binary(name = "program", srcs = ["a.cc"], deps = [":low", ":top"])
cc_library(name = "top", deps = [":middle", ":low"])
cc_library(name = "middle", deps = [":low"])
cc_library(name = "low", deps = [":top"])
""",
    )
    # The circle is no reason to go on for ever; Bazel would refuse it.
    assert {one.label.name for one in found.program(Label("", "", "program")).libraries} == {"top", "middle", "low"}
    straight = graph(
        tmp_path,
        """
cc_binary(name = "program", srcs = ["a.cc"], deps = [":low", ":top"])
cc_library(name = "top", deps = [":middle", ":low"])
cc_library(name = "middle", deps = [":low"])
cc_library(name = "low")
""",
    )
    names = [one.label.name for one in straight.program(Label("", "", "program")).libraries]
    assert names == ["top", "middle", "low"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "there is no target //:program"),
        ('cc_binary(name = "program", srcs = ["no.cc"])', "there is no source no.cc"),
        ('cc_binary(name = "program", srcs = ["a.cc"], deps = ["//no:x"])', "there is no package //no"),
        ('cc_binary(name = "program", srcs = ["a.cc"], deps = [":program"])', "which is a cc_binary"),
        ('cc_binary(name = "program", srcs = ["../a.cc"])', "leads out of its repository"),
        ('cc_binary(name = "program", srcs = ["a.cc"], deps = ["///etc:x"])', "leads out of its repository"),
        ('py_binary(name = "program")', "is a py_binary"),
        ('alias(name = "program", actual = ":program")', "an alias of itself"),
    ],
)
def test_why_a_program_cannot_be_built(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(Unbuildable, match=reason):
        graph(tmp_path, text).program(Label("", "", "program"))


@pytest.mark.parametrize(
    "command", ["touch $@", "$(CC) -o $(location out) a.cc; touch x", "$(CC) $(SECRET)", "$(CC) '"]
)
def test_only_a_call_of_the_compiler_is_a_command(tmp_path: Path, command: str) -> None:
    found = graph(tmp_path, f'genrule(name = "out", outs = ["out"], cmd = """{command}""")')
    with pytest.raises(Unbuildable, match="made by a command"):
        found.datum(Label("", "", "out"))


def test_names_are_quoted_for_ninja_and_its_shell(tmp_path: Path) -> None:
    place = tmp_path / "a $HOME: b'c"
    place.mkdir()
    found = graph(place, """cc_binary(name = "x", srcs = ["a.cc"], copts = ["-Dx='$(touch y)'"])""")
    file = NinjaFile("c++", [], found)
    file.add_program(found.program(Label("", "", "x")), "../x")
    assert "compile " + str(place / "a.cc").replace("$", "$$").replace(" ", "$ ").replace(":", "$:") in file.text()
    assert "$(touch" not in file.text().replace("$$", "")
