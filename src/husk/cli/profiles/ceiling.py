"""cli: what the user's own file forbids to files of projects: its section [projects]. Trust in a file is one thing;
this holds for all of them."""

from __future__ import annotations

import os

from husk.cli.profiles.profile_file import KEYS, ProfileFile, Setting
from husk.sandbox.rules.net_ceiling import covers

MODES = ("ro", "cow", "rw")
ALWAYS = ("hide", "deny", "protect")  # rules that are added to every profile of a project
SECTION = ("mount", "outside", "allow-net", "forbid", *ALWAYS)


class Ceiling:
    """`check` raises where a setting of a project goes beyond it."""

    __slots__ = ("_forbidden", "_hosts", "_mode", "_outside", "_user")

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
            source, _, rest = value.partition(":")
            mode = rest.rpartition(":")[2] if rest.endswith((":rw", ":cow", ":ro")) else "ro"
            if MODES.index(mode) > MODES.index(self._mode):
                return f"your own file gives projects {self._mode} mounts at most"
            if not self._outside and not _is_below(source, project.directory):
                return "your own file keeps projects to their own directory"
        if key == "allow-net" and self._hosts is not None and not any(covers(one, value) for one in self._hosts):
            return "your own file does not give projects this host"
        if key == "net" and value == "host" and self._hosts is not None:
            return "your own file gives projects some hosts only"
        return ""


def _is_below(path: str, directory: str) -> bool:
    path = os.path.realpath(path)
    return path == directory or path.startswith(directory.rstrip("/") + "/")
