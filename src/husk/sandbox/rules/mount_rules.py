"""sandbox: the rules of a box, held at the roots of its mounts: by name, and by the identities that names have now.

A full search of a home would take seconds, so identities are found only for patterns without wildcards, at each mount's
root: `~/.ssh`, `.git/hooks` of a mounted project, the far end of a link `.bashrc`. Everything else is held by name.
docs/design/015-name-rules.md says what that leaves open.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import guard_root, judge_name, name_matches, names_present, open_beneath, unguard_root
from husk.sandbox.errors import UsageError
from husk.sandbox.rules.path_rule import (
    DEEP,
    VERBS,
    PathRule,
    components,
    escaped,
    homes,
    is_plain,
    named_by,
    state_at,
)
from husk.vfs.host.tree_rules import ALLOW, DENY, TreeRule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from husk.sandbox.policy import Mount
    from husk.sandbox.rules.path_rule import Parts

    Identity = tuple[int, int]
    NativeRule = tuple[int, bool, bool, Parts, int, str, str]

SMALL = 100
STRENGTH = {verb: number for number, verb in enumerate(VERBS)}
LOOK = os.O_PATH | os.O_NOFOLLOW


def rules_of(given: Iterable[PathRule], *, default: bool) -> list[PathRule]:
    """All rules of a box, the weakest first: of those that match a name the last one decides."""
    rules = list(given)
    if default:
        from husk.sandbox.rules.default_rules import default_rules

        lifted = {rule.pattern for rule in rules if rule.verb == "allow"}
        lifted |= {f"{prefix}/{pattern}" for prefix in ("**", "~") for pattern in lifted}
        rules += [rule for rule in default_rules() if rule.pattern not in lifted]
    strength = {verb: number for number, verb in enumerate(("protect", "deny", "hide", "allow"))}
    return sorted(rules, key=lambda rule: (not rule.default, strength[rule.verb]))


class RootRules:
    """The rules as they stand at one mount's root: those that can match below it, for C and for Python."""

    __slots__ = ("_numbers", "native", "texts", "whose")

    def __init__(
        self, rules: list[PathRule], mount: Mount, points: list[str], all_homes: list[Parts] | None = None
    ) -> None:
        """`points`: names below the root that other mounts cover: those the caller wants to see."""
        self.native: list[NativeRule] = []
        self.whose: list[PathRule | None] = []
        self.texts = Texts(self.whose)
        self._numbers: dict[int, int] = {}  # by the id of a rule
        source = components(mount.source)
        places = [home for home in (homes() if all_homes is None else all_homes) if _may_meet(home, source)]
        begins_above = BeginsAbove(source)
        for rule in rules:
            if rule.anchor == "mount" and not begins_above.may(rule.parts):
                self._add(rule, rule.parts, 1)  # the first part comes next
                continue
            for anchor, parts in rule.forms(places):
                state = 1
                if anchor == "host" or begins_above.may(parts):
                    state, matched = state_at(parts, source)
                    if matched and anchor == "host" and not rule.default and rule.verb != "allow":
                        raise UsageError(
                            f"{rule} closes all of it; leave one of them out.", option="mount", value=str(mount)
                        )
                if state:
                    self._add(rule, parts, state)
        for point in points:
            self.native.append((ALLOW, False, False, escaped(components(point)), 1, "", ""))
            self.whose.append(None)

    def _add(self, rule: PathRule, parts: Parts, state: int) -> int:
        number = len(self.native)
        self._numbers.setdefault(id(rule), number)
        self.native.append((STRENGTH[rule.verb], rule.own, rule.files, parts, state, *rule.said))
        self.whose.append(rule)
        return number

    def number(self, rule: PathRule) -> int:
        """Its number here. A rule that matches no name here may still hold a file that another mount shows, too."""
        found = self._numbers.get(id(rule))
        return self._add(rule, rule.parts, 0) if found is None else found

    def names(self) -> Iterator[bytes]:
        """Names below the root that a rule means, where it means just one."""
        for (verb, _, _, parts, state, *_), rule in zip(self.native, self.whose, strict=True):
            if verb == ALLOW or rule is None:
                continue
            yield from rule.named if state == 1 and parts is rule.parts else named_by(parts, state)


class Texts:
    """What is said for each rule of a root. Most never refuse anything."""

    __slots__ = ("_whose",)

    def __init__(self, whose: list[PathRule | None]) -> None:
        self._whose = whose

    def __getitem__(self, number: int) -> TreeRule:
        rule = self._whose[number]
        if rule is None:
            return TreeRule(ALLOW, "", "", "")
        return TreeRule(STRENGTH[rule.verb], rule.name, *rule.said, files=rule.files)


class Found:
    """A host file that a rule names now. `fd` holds it, so that its inode number stays its own."""

    __slots__ = ("fd", "identity", "is_dir", "rule")

    def __init__(self, fd: int, rule: PathRule) -> None:
        info = os.fstat(fd)
        self.fd, self.identity, self.rule = fd, (info.st_dev, info.st_ino), rule
        self.is_dir = st.S_ISDIR(info.st_mode)


def find_named(root: int, source: str, here: RootRules) -> list[Found]:
    """The files that rules name below `root`, whose guard has the rules by now; the caller closes their descriptors."""
    look = os.dup(root)  # without a guard
    found: list[Found] = []
    try:
        for name in names_present(look, list(dict.fromkeys(here.names()))):
            number, verb, itself, *_ = judge_name(root, name, 0)
            rule = here.whose[number] if number >= 0 and itself else None
            if rule is None:
                continue
            try:
                fd = open_beneath(look, name, LOOK)
            except OSError:
                continue
            mode = os.fstat(fd).st_mode
            if verb == DENY and rule.files and st.S_ISDIR(mode):
                os.close(fd)
                continue
            found.append(Found(fd, rule))
            far = _far_end(source, name) if st.S_ISLNK(mode) else -1
            if far >= 0:
                found.append(Found(far, rule))
    finally:
        os.close(look)
    for one in list(found):
        if one.is_dir:
            found += [Found(fd, one.rule) for fd in _linked_files(one.fd)]
    return found


def show_named(mount: Mount, rules: list[PathRule]) -> list[tuple[str, PathRule]]:
    """What rules name at the root of a mount now, for a person: paths below it."""
    root = os.open(mount.source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    shown: list[tuple[str, PathRule]] = []
    try:
        here = RootRules(rules, mount, [])
        guard_root(root, [], [], False, None, here.native)
        for name in dict.fromkeys(here.names()):
            number, _, itself, *_ = judge_name(root, name, 0)
            rule = here.whose[number] if number >= 0 and itself else None
            if rule is not None and os.path.lexists(os.path.join(os.fsencode(mount.source), name)):
                shown.append((os.fsdecode(name), rule))
    finally:
        unguard_root(root)
        os.close(root)
    return shown


def check_points(root: int, mount: Mount, points: list[str], here: RootRules) -> None:
    """A mount point must not lie in a directory that is closed."""
    for point in points:
        number, verb, itself, *_ = judge_name(root, os.fsencode(point), 0)
        if verb >= DENY and not itself:
            rule = here.texts[number]
            raise UsageError(
                f"{rule.reason.replace(' it', ' the directory above it')}; {rule.allow}, or mount it elsewhere.",
                option="mount",
                value=f"…:{mount.target}/{point}",
            )


def check_hosts(rules: list[PathRule], mounts: list[Mount]) -> None:
    """Raises for a host path that no mount shows: most likely it was meant as a path in the box."""
    for rule in rules:
        if rule.default or rule.anchor != "host" or not mounts:
            continue
        if any(state_at(rule.parts, components(mount.source))[0] for mount in mounts):
            continue
        if any(state_at(rule.parts, components(mount.source))[1] for mount in mounts):
            continue
        for mount in mounts:
            inside = f"{mount.target}/"
            if rule.pattern.startswith(inside):
                rest = rule.pattern[len(inside) :]
                raise UsageError(
                    f"{rule}: patterns name host paths; write {mount.source.rstrip('/')}/{rest}, or ./{rest} for every "
                    "mount's root."
                )
        raise UsageError(f"{rule}: no mount shows that host path; write a path below a mount's source, or a name.")


def _far_end(source: str, name: bytes) -> int:
    """The file that a link leads to on the host; -1: none."""
    try:
        return os.open(os.path.join(os.fsencode(source), name), os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return -1


def _linked_files(directory: int) -> list[int]:
    """Descriptors of the files in a directory that have further names, for the caller to close. Only of a small
    directory, as .ssh is: a browser's profile would take too long."""
    found: list[int] = []
    try:
        names = os.listdir(fd := os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory))
    except OSError:
        return found
    try:
        for name in names if len(names) <= SMALL else ():
            info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if info.st_nlink > 1 and st.S_ISREG(info.st_mode):
                found.append(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd))
    except OSError:
        pass  # gone meanwhile
    finally:
        os.close(fd)
    return found


class BeginsAbove:
    """Does a rule for a path anywhere begin in the directories above the mount's root? A wildcard does not: `**/*/a` is
    for an `a` below some directory of the mount."""

    __slots__ = ("_known", "_source")

    def __init__(self, source: list[bytes]) -> None:
        self._source = source
        self._known: dict[bytes, bool] = {}  # many rules begin with the same name

    def may(self, parts: Parts) -> bool:
        if len(parts) < 3 or parts[0] != DEEP:
            return False
        first = parts[1]
        found = self._known.get(first)
        if found is None:
            found = is_plain((first,)) and any(name_matches(first, name) for name in self._source)
            self._known[first] = found
        return found


def _may_meet(home: Parts, source: list[bytes]) -> bool:
    """Does one of the two directories lie in the other?"""
    return all(name_matches(part, name) for part, name in zip(home, source, strict=False))
