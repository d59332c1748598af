"""vfs: the rules of one mount (hide, deny, protect), asked before something is used, changed, made or removed.

The guard (native/host/guard.c) judges every name that is looked up or opened, so what is hidden or denied is never
opened. Here are the checks for calls that open nothing, or that change something. Names decide, and identities: a file
that a rule named when the box was built stays that rule's, whatever it is called.
"""

from __future__ import annotations

import errno
import stat as st

from husk.abi.text import shown
from husk.native._core import (
    DeniedByRule,
    HiddenByRule,
    ProtectedByRule,
    hidden_names,
    judge_name,
    made_directory,
    own_file,
    stat_beneath,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    Identity = tuple[int, int]  # device and inode

    class Numbered(Protocol):
        """The rules of a mount, by the number that the guard gives."""

        def __getitem__(self, number: int, /) -> TreeRule: ...

ALLOW, PROTECT, DENY, HIDE = range(4)  # as native/host/name_rules.h has them
WAY, OWN_WAY, PASSING, OWN_PASSING = 1, 2, 4, 8
MOST_OWN = 4096
NOTHING = (0, 0)  # no file has this identity


class TreeRule:
    """What is said when the rule refuses. `files`: it excepts directories."""

    __slots__ = ("allow", "files", "name", "reason", "verb")

    def __init__(self, verb: int, name: str, reason: str, allow: str, *, files: bool = False) -> None:
        self.verb, self.name, self.reason, self.allow, self.files = verb, name, reason, allow, files

    def refusal(self) -> OSError:
        """EROFS is what a read-only mount over the name would give; a closed name cannot be made either."""
        if self.verb == PROTECT:
            return ProtectedByRule(errno.EROFS, self.reason, "", None, self.allow)
        return DeniedByRule(errno.EACCES, self.reason, "", None, self.allow)

    def must_stay(self, rel: bytes) -> OSError:
        """For a directory above what the rule names: moved away, it would take that out of the rule. EBUSY is what a
        mount point gives."""
        name = shown(rel.rpartition(b"/")[2])
        why = f"{self.name} is about a name in it, so it stays where it is"
        return ProtectedByRule(errno.EBUSY, why, "", None, f"--allow {name}")


class TreeRules:
    """The rules below the root `fd`, which has a guard. `identities`: what they named when the box was built.

    Most methods take the identities of a file and of the directories above it, without the root: a rule may have named
    one of them. Rules for projects except what the guest made in this run, in a directory that it made: so `git clone`
    and `npm install` may bring along what a project of the host's must not get. The thing itself is excepted, not all
    that lies in its directory: the guest may move a directory of the host's there.
    """

    __slots__ = ("_fd", "_hidden", "_identities", "_own", "_rules")

    def __init__(self, fd: int, rules: Numbered, identities: dict[Identity, int]) -> None:
        self._fd, self._rules, self._identities = fd, rules, identities
        self._hidden = {identity for identity, rule in identities.items() if rules[rule].verb == HIDE}
        # What the guest made, in directories that it made, by a name that a rule is about. The guard knows these
        # directories, because C makes most of them.
        self._own: set[Identity] = set()

    # -- listing -----------------------------------------------------------------------------------------------
    def hidden(self, rel: bytes, names: list[tuple[bytes, Identity]]) -> set[bytes]:
        """Those of a directory's names that are not to be listed."""
        found = set(hidden_names(self._fd, rel, [name for name, _ in names]))
        if self._hidden:
            found.update(name for name, identity in names if identity in self._hidden)
        return found

    # -- using and changing ------------------------------------------------------------------------------------
    def use(self, rel: bytes, kind: int, identities: Iterable[Identity]) -> None:
        """Raises for what is denied."""
        rule = self._deciding(rel, kind, list(identities))
        if rule is not None and rule.verb >= DENY:
            raise rule.refusal()

    def change(self, rel: bytes, kind: int, identities: list[Identity]) -> None:
        """Raises for what is denied, or protected from changes of its content and attributes."""
        rule = self._deciding(rel, kind, identities)
        if rule is None and kind != st.S_IFDIR:
            # A link or a file where a rule has a directory (a worktree's .git) leads to another one.
            rule = self._on_the_way(rel, identities[:1], WAY | OWN_WAY)
        if rule is not None:
            raise rule.refusal()

    def at(self, rel: bytes, kind: int, *, in_own: bool, identity: Identity | None = None) -> TreeRule | None:
        """The rule for a name, whatever is there. `in_own`: it lies in a directory that the guest made."""
        number, _, _, way, way_rule, _ = judge_name(self._fd, rel, len(rel) if in_own else 0)
        if number >= 0 and not (self._rules[number].files and kind == st.S_IFDIR):
            return self._rules[number]
        number = self._identities.get(identity, -1) if identity is not None else -1
        if number >= 0:
            return self._rules[number]
        # As in `change`.
        ways = WAY if in_own else WAY | OWN_WAY
        return self._rules[way_rule] if way & ways and kind != st.S_IFDIR else None

    def denying(self, rel: bytes) -> TreeRule | None:
        """The rule that closes this name of the host's."""
        number, verb, *_ = judge_name(self._fd, rel, 0)
        return self._rules[number] if verb >= DENY else None

    # -- names -------------------------------------------------------------------------------------------------
    def make(self, rel: bytes, kind: int, above: list[Identity], *, moved: bool = False) -> None:
        """Raises where no such name may appear. `moved`: it comes from elsewhere, with all that is in it."""
        in_own = above[:1] and self._is_made(above[0])
        rule = self._deciding(rel, kind, [NOTHING, *above], own_end=len(rel) if in_own else 0)
        # A new directory is filled name by name; a link, or a directory with names in it, brings them along.
        if rule is None and (moved or kind == st.S_IFLNK):
            # A file brings none, but it would stand where a rule has a directory.
            rule = self._on_the_way(rel, [], WAY | PASSING if kind in (st.S_IFDIR, st.S_IFLNK) else WAY)
        if rule is not None:
            raise rule.refusal()

    def remove(self, rel: bytes, kind: int, identities: list[Identity], *, moving: bool = False) -> None:
        """Raises where the name must stay. `moving`: what is below it goes with it."""
        self.change(rel, kind, identities)
        if moving and kind == st.S_IFDIR:
            rule = self._on_the_way(rel, identities[:1], WAY | OWN_WAY | PASSING | OWN_PASSING)
            if rule is not None:
                raise rule.must_stay(rel)

    def must_not_name(self, identity: Identity) -> None:
        """Raises for a file that a rule named, under whatever name it is about to be removed or replaced."""
        number = self._identities.get(identity, -1)
        if number >= 0:
            raise self._rules[number].refusal()

    def name_any(self, identities: list[Identity]) -> bool:
        """Has a rule named one of these?"""
        return any(identity in self._identities for identity in identities)

    def must_be_free(self, fd: int, rel: bytes) -> None:
        """Raises if the name is taken by something hidden."""
        try:
            stat_beneath(fd, rel)
        except HiddenByRule as hidden:
            raise DeniedByRule(errno.EACCES, hidden.strerror, "", None, hidden.filename2) from None

    def made_directory(self, identity: Identity) -> None:
        """The guest made it just now."""
        made_directory(self._fd, *identity, True)

    def _is_made(self, directory: Identity) -> bool:
        return directory in self._own or made_directory(self._fd, *directory)

    def may_take(self, rel: bytes, directory: Identity) -> None:
        """Raises for a directory of the host's that is to be moved to a name of the guest's own, which `make` allows:
        moved back, it would still pass for one that the guest made, and could be filled."""
        rule = self._about(rel, st.S_IFDIR)
        if rule is not None and not self._is_made(directory):
            raise rule.refusal()

    def named(self, rel: bytes, kind: int, identity: Identity) -> None:
        """The guest made something by this name, or moved it there. `make` and `may_take` have allowed it."""
        if self._about(rel, kind) and len(self._own) < MOST_OWN and own_file(self._fd, rel, *identity):
            self._own.add(identity)

    def _about(self, rel: bytes, kind: int) -> TreeRule | None:
        """The rule for this very name, or for one below it."""
        number, _, _, way, way_rule, end = judge_name(self._fd, rel, 0)
        if number >= 0 and end == len(rel) and not (self._rules[number].files and kind == st.S_IFDIR):
            return self._rules[number]
        return self._rules[way_rule] if way & OWN_WAY else None

    def gone(self, identity: Identity) -> None:
        """The guest removed it: its inode number may come back for another file."""
        self._own.discard(identity)
        made_directory(self._fd, *identity, False)

    # -- what decides ------------------------------------------------------------------------------------------
    def _deciding(self, rel: bytes, kind: int, identities: list[Identity], own_end: int = 0) -> TreeRule | None:
        while True:
            number, _, itself, _, _, end = judge_name(self._fd, rel, own_end)
            if number < 0 or (self._rules[number].files and itself and kind == st.S_IFDIR):
                break
            if end <= own_end or self._identity_at(rel, end, identities) not in self._own:
                return self._rules[number]
            own_end = end  # the guest made this one; something below it may not be its own
        for identity in identities if self._identities else ():
            number = self._identities.get(identity, -1)
            if number >= 0:
                return self._rules[number]
        return None

    def _identity_at(self, rel: bytes, end: int, identities: list[Identity]) -> Identity:
        """Of the component that ends at `end`; the last component's comes first."""
        below = rel.count(b"/", end)
        return identities[below] if below < len(identities) else NOTHING

    def _on_the_way(self, rel: bytes, itself: list[Identity], ways: int) -> TreeRule | None:
        """The rule for something below `rel`, unless the guest made `rel` for that."""
        _, _, _, way, way_rule, _ = judge_name(self._fd, rel, 0)
        if itself and itself[0] in self._own:
            ways &= ~OWN_WAY
        return self._rules[way_rule] if way & ways else None
