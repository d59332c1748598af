"""cli: what files of projects may not have. Trust in a file is one thing; this holds for all of them: what the user's
own file forbids in its section [projects], and links that lead out of the project."""

from __future__ import annotations

import os

from husk.cli.profiles.profile_file import KEYS, PATHS, SECRET_FILE, ProfileFile, Setting
from husk.sandbox.rules.net_ceiling import covers, covers_request

MODES = ("ro", "cow", "rw")
ALWAYS = ("hide", "deny", "protect")  # rules that are added to every profile of a project
SECTION = ("mount", "outside", "allow-net", "forbid", *ALWAYS)


class Ceiling:
    """`check` raises where a setting of a project goes beyond it."""

    __slots__ = ("_forbidden", "_hosts", "_mode", "_outside", "_rules", "_user")

    def __init__(self, user: ProfileFile) -> None:
        self._user = user
        section = user.own.table("projects")
        section.only(SECTION)
        self._mode = section.text("mount") or "rw"
        if self._mode not in MODES:
            raise user.wrong("projects", "mount", "mount is the most that a project may have: ro, cow or rw.")
        self._outside = section.flag("outside", default=True)
        self._hosts = section.words("allow-net") if "allow-net" in section else None
        self._forbidden = section.words("forbid")
        self._rules = any(section.words(key) for key in ALWAYS)
        for key in self._forbidden:
            if key not in KEYS:
                raise user.wrong("projects", "forbid", f"there is no {key}; `husk run --help` lists the options.")

    def always(self) -> list[Setting]:
        section = self._user.own.table("projects")
        return [
            Setting(key, KEYS[key], pattern, self._user.line_of("projects", key))
            for key in ALWAYS
            for pattern in section.words(key)
        ]

    def check(self, project: ProfileFile, setting: Setting) -> None:
        if why := self._beyond(project, setting):
            raise project.wrong_at(setting.line, f"{setting}: {why} ({self._user.path}, section [projects]).")

    def _beyond(self, project: ProfileFile, setting: Setting) -> str:
        key, value = setting.key, setting.value
        if key in self._forbidden:
            return f"your own file forbids {key} to projects"
        if key == "mount" and not value.endswith(":image"):
            rest = value.partition(":")[2]
            mode = rest.rpartition(":")[2] if rest.endswith((":rw", ":cow", ":ro")) else "ro"
            return self._mount_beyond(project, _source(setting), mode)
        if key in PATHS:
            return self._mount_beyond(project, _source(setting), "ro")
        if key == "inject":
            return next(filter(None, (self._mount_beyond(project, path, "ro") for path in _secrets(setting))), "")
        if key == "keep":
            return self._kept_beyond(project, value)
        if key == "allow" and self._rules:
            return "it could lift what your own file hides, denies or protects in projects"
        if key == "allow-net" and self._hosts is not None and not any(covers(one, value) for one in self._hosts):
            return "your own file does not give projects this host"
        hosts = self._hosts
        if key == "allow-http" and hosts is not None and not any(covers_request(one, value) for one in hosts):
            return "your own file does not give projects this host"
        if key == "net" and value == "host" and self._hosts is not None:
            return "your own file gives projects some hosts only"
        return ""

    def _mount_beyond(self, project: ProfileFile, source: str, mode: str) -> str:
        if MODES.index(mode) > MODES.index(self._mode):
            return f"your own file gives projects {self._mode} mounts at most"
        if not self._outside and not _is_below(source, project.directory):
            return "your own file keeps projects to their own directory"
        return ""

    def _kept_beyond(self, project: ProfileFile, name: str) -> str:
        """A box that is kept already has mounts, perhaps of another project."""
        from husk.sandbox.kept.kept_boxes import KeptBoxes

        record = KeptBoxes().find(name)
        for source, _, mode in record.mounts if record is not None else ():
            if mode in MODES and (why := self._mount_beyond(project, source, mode)):
                return f"the box has {source} ({mode}), and {why}"
        return ""


def check_links(project: ProfileFile, setting: Setting) -> None:
    """A guest that may write to the project could replace a directory that a profile mounts by a link to another."""
    for source in (_source(setting), *_secrets(setting)):
        if source and _is_spelled_below(source, project.directory) and not _is_below(source, project.directory):
            why = f"a symbolic link leads to {os.path.realpath(source)}; if you mean that, write it."
            raise project.wrong_at(setting.line, f"{setting}: {why}")


def check_store(project: ProfileFile, settings: list[Setting]) -> None:
    """husk maps the manifests of a store. In the run that uses it no guest can reach it; but programs of another run,
    to which the same directory is just a part of the project, could write to it."""
    written = [_source(setting) for setting in settings if setting.value.endswith(":rw")]
    for setting in settings:
        if setting.key == "store":
            place = os.path.expanduser(setting.value)
            if any(_is_below(place, os.path.realpath(top)) for top in (project.directory, *written) if top):
                why = "programs of the project could write to it; keep it elsewhere, outside of what is mounted rw."
                raise project.wrong_at(setting.line, f"{setting}: {why}")


def _source(setting: Setting) -> str:
    """The host's file or directory that a setting names, if it is one that does."""
    if setting.key == "mount" and not setting.value.endswith(":image"):
        return setting.value.partition(":")[0]
    return os.path.normpath(setting.value) if setting.key in PATHS else ""


def _secrets(setting: Setting) -> list[str]:
    """The host's files that a header takes secrets from."""
    if setting.key != "inject":
        return []
    return [os.path.normpath(path) for _, path in SECRET_FILE.findall(setting.value)]


def _is_below(path: str, directory: str) -> bool:
    return _is_spelled_below(os.path.realpath(path), directory)


def _is_spelled_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
