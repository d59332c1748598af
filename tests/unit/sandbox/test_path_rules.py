"""Rules for names below mounts: how patterns are read, what they match, and husk's own table."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as some

from husk.native._core import guard_root, hidden_names, judge_name, name_matches, unguard_root
from husk.sandbox.errors import UsageError
from husk.sandbox.policy import Mount, read_rules
from husk.sandbox.rules.default_rules import default_rules
from husk.sandbox.rules.mount_rules import RootRules, check_hosts, rules_of, show_named
from husk.sandbox.rules.path_rule import VERBS, PathRule, components, quoted, state_at

ROOT = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # names are judged without opening anything below it
ALLOW, PROTECT, DENY, HIDE = range(4)


@pytest.fixture
def judge() -> Iterator[object]:
    yield judge_at
    unguard_root(ROOT)


def judge_at(path: str, *rules: PathRule, source: str = "/srv/project", in_own: bool = False) -> str:
    """The verb that decides; empty: none."""
    here = RootRules(list(rules), Mount(source, "/m"), [])
    guard_root(ROOT, [], [], False, None, here.native)
    number, verb, *_ = judge_name(ROOT, os.fsencode(path), len(os.fsencode(path)) if in_own else 0)
    return VERBS[verb] if number >= 0 else ""


def way_at(path: str, rule: PathRule) -> int:
    guard_root(ROOT, [], [], False, None, RootRules([rule], Mount("/srv/project", "/m"), []).native)
    return judge_name(ROOT, path.encode(), 0)[3]


# -- patterns ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (".env", [".env", "a/b/.env", ".ENV"], [".env2", "env", "a.env"]),
        (".env.*", [".env.local", "x/.env.prod"], [".env", ".envx"]),
        ("./.env", [".env"], ["a/.env"]),
        ("conf/cloud", ["conf/cloud", "conf/cloud/token"], ["a/conf/cloud", "conf", "conf/clouds"]),
        ("**/conf/cloud", ["conf/cloud", "a/b/conf/cloud/x"], ["conf/a/cloud"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z/y"], ["z", "b/a/z", "a/b"]),
        ("keys/**", ["keys/a", "keys/a/b"], ["keys"]),
        ("/srv/project/in", ["in", "in/x"], ["a/in"]),
        ("/srv/*/in", ["in"], ["a/in"]),
        ("id_?sa", ["id_rsa", "x/id_dsa"], ["id_sa", "id_rrsa"]),
        ("[a-c]x", ["ax", "Cx"], ["dx", "x"]),
        ("[!a]x", ["bx"], ["ax"]),
        (r"a\*b", ["a*b"], ["axb"]),
        (".ssh/", [".ssh", "a/.ssh/id"], ["ssh"]),
        ("naïve", ["naïve"], ["naive"]),
        ("a?c", ["aéc"], ["ac"]),
    ],
)
def test_what_a_pattern_matches(judge: object, pattern: str, matching: list[str], other: list[str]) -> None:
    rule = PathRule("hide", pattern)
    assert [name for name in matching if judge_at(name, rule) != "hide"] == []
    assert [name for name in other if judge_at(name, rule)] == []


@pytest.mark.parametrize(
    "spelling", [".SSH", ".ſsh", ".\u200bssh", ".s\u00adsh", ".ßh", ".s\ufe0fsh", ".S\u200dS\u200cH", ".SSH/id"]
)
def test_spellings_that_a_folding_directory_takes_for_the_name(judge: object, spelling: str) -> None:
    """ext4 and f2fs compare names of such a directory without case, and without characters that Unicode ignores."""
    assert judge_at(spelling, PathRule("hide", ".ssh")) == "hide"


@pytest.mark.parametrize("pattern", [".KUBE", ".\u212aube"])
def test_patterns_are_folded_too(judge: object, pattern: str) -> None:
    assert judge_at(".kube/config", PathRule("hide", pattern)) == "hide"


@pytest.mark.parametrize(
    "pattern",
    ["", "/", "//", ".", "a/../b", "..", "!x", "a[b", "a\\", "[a\\]]", "~bob/x", "x\0y", "**", "a/" * 40, "n" * 300],
)
def test_a_bad_pattern_is_one_sentence(pattern: str) -> None:
    with pytest.raises(UsageError) as refused:
        PathRule("hide", pattern)
    text = str(refused.value)
    assert text.startswith(("--hide", "'--hide")) and "\n" not in text and len(text) < 500


@pytest.mark.parametrize("name", ["plain", "with space", "qu'ote", "star*", "~/x"])
def test_patterns_are_quoted_for_a_shell(name: str) -> None:
    import shlex

    assert shlex.split(quoted(name)) == [name]


# -- against a simple model --------------------------------------------------------------------------------------------
NAMES = some.text(alphabet="ab.", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
PARTS = some.one_of(NAMES, some.sampled_from(["*", "a*", "*b", "?", "a?b", "[ab]", "[!a]", "**", "*.*"]))


def model(parts: list[str]) -> re.Pattern[str]:
    """A regular expression for the whole path, or for the path of a directory above it."""
    text = ""
    for number, part in enumerate(parts):
        last = number + 1 == len(parts)
        if part == "**":
            text += "(?:[^/]+/)*[^/]+" if last else "(?:[^/]+/)*"
            continue
        one = "".join({"*": "[^/]*", "?": "[^/]"}.get(c, c if c in "[]!-" else re.escape(c)) for c in part)
        text += one.replace("[!", "[^") + ("" if last else "/")
    return re.compile(f"(?:{text})(?:/.*)?", re.S)


@given(some.lists(PARTS, min_size=1, max_size=4), some.lists(NAMES, min_size=1, max_size=5), some.booleans())
def test_matching_is_that_of_the_model(parts: list[str], names: list[str], floating: bool) -> None:
    pattern = "/".join(parts)
    floating = floating or len(parts) == 1
    try:
        rule = PathRule("hide", f"**/{pattern}" if floating else f"./{pattern}")
    except UsageError:
        assert set(parts) == {"**"}
        return
    wanted = model(["**", *parts] if floating else parts)
    path = "/".join(names)
    # The regular expression would let the last ** of `**/**` be empty where a name must be there.
    expected = any(wanted.fullmatch("/".join(names[:end])) for end in range(1, len(names) + 1))
    found = judge_at(path, rule)
    unguard_root(ROOT)
    assert bool(found) == expected, (pattern, path)


@given(some.lists(PARTS, min_size=1, max_size=3), some.lists(NAMES, min_size=2, max_size=5), some.integers(0, 4))
def test_a_rule_goes_on_where_the_mount_begins(parts: list[str], names: list[str], cut: int) -> None:
    """An absolute pattern matches the same host path, wherever above it the mount's root is."""
    cut = min(cut, len(names) - 1)
    try:
        rule = PathRule("hide", "/" + "/".join(parts))
    except UsageError:
        return
    state, matched = state_at(rule.parts, [name.encode() for name in names[:cut]])
    if matched:
        return
    guard_root(ROOT, [], [], False, None, [(HIDE, False, False, rule.parts, state, "", "")] if state else [])
    below = judge_name(ROOT, "/".join(names[cut:]).encode(), 0)[0]
    guard_root(ROOT, [], [], False, None, [(HIDE, False, False, rule.parts, 1, "", "")])
    assert below == judge_name(ROOT, "/".join(names).encode(), 0)[0]
    unguard_root(ROOT)


@given(NAMES, some.lists(NAMES, max_size=6, unique=True))
def test_a_listing_hides_what_a_look_up_hides(name: str, names: list[str]) -> None:
    guard_root(ROOT, [], [], False, None, RootRules([PathRule("hide", name)], Mount("/srv", "/m"), []).native)
    hidden = hidden_names(ROOT, b"d", [one.encode() for one in names])
    assert hidden == [one.encode() for one in names if judge_name(ROOT, f"d/{one}".encode(), 0)[0] >= 0]
    unguard_root(ROOT)


# -- which rule decides ------------------------------------------------------------------------------------------------
def test_allow_beats_the_others_and_of_those_the_strictest_wins(judge: object) -> None:
    every = [PathRule(verb, "x") for verb in ("protect", "hide", "deny")]
    assert judge_at("x", *rules_of(every, default=False)) == "hide"
    assert judge_at("x", *rules_of([*every, PathRule("allow", "x")], default=False)) == ""
    assert judge_at("x/y", *rules_of([PathRule("protect", "x"), PathRule("allow", "x/y")], default=False)) == ""
    assert judge_at("x/z", *rules_of([PathRule("protect", "x"), PathRule("allow", "x/y")], default=False)) == "protect"
    # What is closed is closed with all in it.
    assert judge_at("x/y", *rules_of([PathRule("deny", "x"), PathRule("allow", "x/y")], default=False)) == "deny"


def test_one_s_own_rules_beat_the_defaults(judge: object) -> None:
    assert judge_at(".env.example", *rules_of([], default=True)) == ""
    assert judge_at(".env.example", *rules_of([PathRule("hide", ".env*")], default=True)) == "hide"
    assert judge_at(".env.local", *rules_of([], default=True)) == "deny"
    assert judge_at(".env.local", *rules_of([PathRule("allow", ".env.local")], default=True)) == ""
    assert judge_at("a/.git/hooks/x", *rules_of([PathRule("allow", ".git/hooks")], default=True)) == ""


def test_what_lies_above_a_name(judge: object) -> None:
    assert way_at("conf", PathRule("hide", "conf/cloud")) == 1
    assert way_at("a/.git", PathRule("protect", "**/.git/hooks")) == 1
    assert way_at("a", PathRule("protect", "**/.git/hooks")) == 0
    assert way_at("a/b", PathRule("protect", "a/**/z")) == 4
    assert way_at("b", PathRule("protect", "x")) == 0


def test_a_mount_below_what_a_rule_names(judge: object) -> None:
    assert judge_at("gcloud/token", *default_rules(), source="/srv/.config") == "hide"
    assert judge_at("id_rsa", *default_rules(), source="/srv/.ssh") == "", "just this was asked for"
    with pytest.raises(UsageError, match="leave one of them out"):
        RootRules([PathRule("hide", "/srv/keys")], Mount("/srv/keys", "/m"), [])


def test_mount_points_are_seen(judge: object) -> None:
    here = RootRules([PathRule("hide", ".ssh")], Mount("/srv", "/m"), ["home/.ssh"])
    guard_root(ROOT, [], [], False, None, here.native)
    assert judge_name(ROOT, b"home/.ssh", 0)[0] == -1
    assert judge_name(ROOT, b".ssh", 0)[1] == HIDE


def test_a_path_in_the_box_is_no_host_path() -> None:
    mounts = [Mount("/srv", "/work")]
    check_hosts([PathRule("hide", "/srv/x"), PathRule("hide", "x")], mounts)
    with pytest.raises(UsageError, match=r"write /srv/secret"):
        check_hosts([PathRule("hide", "/work/secret")], mounts)
    with pytest.raises(UsageError, match=r"no mount shows that host path"):
        check_hosts([PathRule("hide", "/elsewhere/secret")], mounts)


def test_patterns_are_a_list() -> None:
    with pytest.raises(UsageError, match="give a list"):
        read_rules({"hide": ".env"})
    assert [str(rule) for rule in read_rules({"hide": ["a b"], "allow": ["c"]})] == ["--hide 'a b'", "--allow c"]


# -- the defaults ------------------------------------------------------------------------------------------------------
HOME = "/home/someone"


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        (".ssh/id_rsa", "hide"),
        (".aws/credentials", "hide"),
        (".config/gcloud/x", "hide"),
        (".azure", "hide"),
        (".kube/config", "hide"),
        (".docker/config.json", "hide"),
        (".docker/cli-plugins/x", ""),
        (".netrc", "hide"),
        (".npmrc", "hide"),
        (".gnupg", "hide"),
        (".bash_history", "hide"),
        (".mozilla/firefox/x", "hide"),
        (".password-store/x", "hide"),
        ("work/.env", "deny"),
        ("work/.env.production", "deny"),
        ("work/.env.example", ""),
        ("work/.npmrc", ""),
        ("work/.bashrc", ""),
        (".bashrc", "protect"),
        (".zshrc", "protect"),
        (".profile", "protect"),
        (".config/fish/config.fish", "protect"),
        (".config/husk/mcp.toml", "protect"),
        (".config/git/config", "protect"),
        (".config/git/credentials", "hide"),
        ("work/.git/hooks/pre-commit", "protect"),
        ("work/.git/config", "protect"),
        ("work/.git/index", ""),
        ("work/.git/objects/ab/cd", ""),
        ("work/.git/modules/sub/hooks/x", "protect"),
        ("work/.git/modules/libs/sub/modules/inner/hooks/x", "protect"),
        ("work/.git/modules/libs/sub/config", "protect"),
        ("work/.git/modules/sub/index", ""),
        ("work/.git/commondir", "protect"),
        ("work/.git/worktrees/other/commondir", "protect"),
        ("work/HEAD", "protect"),
        ("work/.git/HEAD", ""),
        ("work/.git/logs/refs/remotes/origin/HEAD", ""),
        ("work/.hg/hgrc", "protect"),
        ("work/.vscode/tasks.json", "protect"),
        ("work/.idea/x", "protect"),
        ("work/.claude/settings.json", "protect"),
        (".claude/.credentials.json", "hide"),
        (".codex/config.toml", "protect"),
        (".cursor/mcp.json", "protect"),
        ("work/.mcp.json", "protect"),
        ("work/src/main.py", ""),
    ],
)
def test_the_defaults_in_a_home(judge: object, name: str, verb: str) -> None:
    assert judge_at(name, *rules_of([], default=True), source=HOME) == verb


def test_what_the_guest_made_is_excepted_but_not_in_a_home(judge: object) -> None:
    rules = rules_of([], default=True)
    assert judge_at("new/.git/hooks/x", *rules, in_own=True) == ""
    assert judge_at("new/.env", *rules, in_own=True) == ""
    assert judge_at(".config/fish/x", *rules, source=HOME, in_own=True) == "protect"
    assert judge_at("new/.ssh", *rules, in_own=True) == "hide"


def test_every_default_can_be_lifted_by_its_own_name(judge: object) -> None:
    for rule in default_rules():
        assert rule.why and "\n" not in rule.why
        left = rules_of([PathRule("allow", rule.pattern)], default=True)
        assert rule.verb == "allow" or rule.pattern not in [one.pattern for one in left if one.default]
        assert rule.remedy == f"--allow {quoted(rule.pattern)}"


def test_the_table_has_each_pattern_once() -> None:
    patterns = [rule.pattern for rule in default_rules()]
    assert sorted(set(patterns)) == sorted(patterns)


def test_show_named(tmp_path: object) -> None:
    top = str(tmp_path)
    os.mkdir(f"{top}/.ssh")
    with open(f"{top}/.env", "w", encoding="ascii"):
        pass
    found = show_named(Mount(top, "/m"), rules_of([], default=True))
    assert [(path, rule.verb) for path, rule in found] == [(".env", "deny"), (".ssh", "hide")]


def test_names_and_components() -> None:
    assert components("//a/b/") == [b"a", b"b"]
    assert name_matches(b"A*", b"abc") and not name_matches(b"a", b"ab")
    with pytest.raises(ValueError, match="1 to 1020"):
        name_matches(b"", b"x")
