"""cli: which profile a run has: of the project's husk.toml, once the user trusts it and within what the user's own file
allows, or of the user's own file."""

from __future__ import annotations

import os
import sys

from husk.cli.output import say
from husk.cli.profiles.ceiling import Ceiling, check_links, check_store
from husk.cli.profiles.profile_file import ProfileFile, read_content
from husk.cli.profiles.trust import is_trusted, place_of, user_file, was_trusted
from husk.sandbox.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.cli.profiles.profile_file import Setting

DEFAULT = "default"


def settings(name: str, path: str) -> list[tuple[ProfileFile, Setting]]:
    """Those of the profile `name`; without a name those of `default`, if there is one. `path` is the project's file, or
    empty."""
    wanted = name or DEFAULT
    user = _user()
    project = _project(name, place_of(path)) if path else None
    if project is not None and wanted in project.profiles:
        return _within(project, wanted, user)
    if user is not None and wanted in user.profiles:
        return [(user, setting) for setting in user.profiles[wanted]]
    if name:
        known = sorted({*(project.profiles if project else ()), *(user.profiles if user else ())})
        there = f"there are {', '.join(known)}" if known else "there is neither husk.toml here nor a file of your own"
        raise UsageError(f"no such profile; {there}. `husk init` writes a first one.", option="profile", value=name)
    return []


def known_profiles(path: str) -> list[str]:
    """Names, for completion: of a project's file only if it is trusted."""
    files = [user] if (user := _user()) is not None else []
    if path and is_trusted(place_of(path), content := read_content(path)):
        files.append(ProfileFile(path, content))
    return sorted({name for file in files for name in file.profiles})


def project_box(path: str) -> str:
    """The name of the box that the default profile keeps; empty: none does. `path` as for `settings`."""
    kept = [setting.value for _, setting in settings("", path) if setting.key == "keep"]
    return kept[-1] if kept else ""


def _user() -> ProfileFile | None:
    """The user's own file. It may be a link: no other user writes there."""
    path = user_file()
    return ProfileFile(os.path.realpath(path)) if os.path.exists(path) else None


def _project(name: str, path: str) -> ProfileFile | None:
    """None: it is not trusted. Then it is not even parsed: a stranger may have written it."""
    try:
        content = read_content(path)
    except UsageError as error:
        if name or was_trusted(path):
            raise
        # Above the working directory other users may write: what they leave there must not keep husk from running.
        say(f"husk: {error} The run goes on without it.", file=sys.stderr)
        return None
    if is_trusted(path, content):
        return ProfileFile(path, content)
    since = "has changed since you trusted it" if was_trusted(path) else "is not trusted"
    advice = f"{path} {since}; read it, then `husk trust`"
    if name:
        raise UsageError(f"{advice}.", option="profile", value=name)
    say(f"husk: {advice}. The run goes on without it; --profile none says so.", file=sys.stderr)
    return None


def _within(project: ProfileFile, name: str, user: ProfileFile | None) -> list[tuple[ProfileFile, Setting]]:
    found = [(project, setting) for setting in project.profiles[name]]
    for _, setting in found:
        check_links(project, setting)
    check_store(project, [setting for _, setting in found])
    if user is not None:
        ceiling = Ceiling(user)
        for _, setting in found:
            ceiling.check(project, setting)
        found += [(user, setting) for setting in ceiling.always()]
    return found
