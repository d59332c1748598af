"""cli: husk.profile, a profile of husk.toml as arguments of husk.run and husk.Sandbox. It stands here because profiles
are options of the command line; trust, ceilings and line numbers are the same."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from husk.api.options import BoxOptions
from husk.api.run_result import speaking_python
from husk.cli.profiles.env_file import variables
from husk.cli.profiles.find_profile import DEFAULT, settings
from husk.cli.run_policy import project_file, variable
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.profiles.profile_file import Setting

# Key of a profile -> argument. `env`, `limit` and the others that need more are in `_take`.
_LISTS = {
    "mount": "mounts",
    "hide": "hide",
    "deny": "deny",
    "protect": "protect",
    "allow": "allow",
    "allow-net": "net",
    "deny-net": "deny_net",
    "allow-http": "allow_http",
    "inject": "inject",
    "allow-socket": "allow_sockets",
    "publish": "publish",
    "weaken": "weaken",
    "device": "devices",
}
_SINGLE = {"image": "image", "keep": "keep", "store": "store", "workdir": "cwd", "net": "net"}
ONLY_RUN = ("as",)  # what Python has no argument for
_FLAGS = {"no-default-rules": "default_rules", "no-namespaces": "namespaces"}
TAKEN = {*_LISTS, *_SINGLE, *_FLAGS, "limit", "timeout", "env", "env-file"}


class ProfileOptions(BoxOptions, total=False):
    """What `husk.profile` gives: arguments of husk.run and husk.Sandbox."""

    image: str


def profile(name: str = DEFAULT, directory: str | os.PathLike[str] = "") -> ProfileOptions:
    """A profile of the husk.toml in `directory` (default: the working directory) or above it, or of the user's own
    file, as arguments: `husk.run(["make"], **husk.profile())`. As with `husk run --profile`: a project's file is obeyed
    only after `husk trust`, and within what the user's own file allows. UsageError: there is no such profile, or it is
    not trusted."""
    found: dict[str, Any] = {}
    with speaking_python():
        for file, setting in settings(name, project_file(os.fspath(directory))):
            try:
                _take(found, setting)
            except UsageError as error:
                raise file.wrong_at(setting.line, str(error)) from None
    made: ProfileOptions = {}
    made.update(found)  # type: ignore[typeddict-item]
    return made


def _take(found: dict[str, Any], setting: Setting) -> None:
    key, value = setting.key, setting.value
    if key in _LISTS:
        found.setdefault(_LISTS[key], []).append(value)
    elif key in _SINGLE:
        found[_SINGLE[key]] = value
    elif key in _FLAGS:
        found[_FLAGS[key]] = False
    elif key == "limit":
        limit, _, amount = value.partition("=")
        found.setdefault("limits", {})[limit] = amount
    elif key == "timeout":
        found.setdefault("limits", {})["time"] = f"{value}s"
    elif key in ("env", "env-file"):
        texts = [value] if key == "env" else variables(value)
        found.setdefault("env", {}).update(map(variable, texts))
    else:  # ONLY_RUN
        raise UsageError(f"{key}: only husk run knows it; leave it out of profiles for Python.")
