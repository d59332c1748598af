"""cli: `husk init` and `husk trust`."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from husk.cli.exit_codes import run_command
from husk.cli.options.profile_options import INIT, TRUST
from husk.cli.output import say, say_as_is, say_result
from husk.cli.profiles.new_profile import new_profile
from husk.cli.profiles.profile_file import ProfileFile
from husk.cli.profiles.profile_schema import schema
from husk.cli.profiles.trust import is_trusted, place_of, revoke, trust, trusted
from husk.cli.run_policy import PROJECT_FILE, project_file
from husk.sandbox.errors import HuskError, UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def init(argv: list[str]) -> int:
    return run_command(INIT, argv, _init)


def trust_file(argv: list[str]) -> int:
    return run_command(TRUST, argv, _trust)


def _init(options: Values) -> int:
    if options.schema:
        say_as_is(json.dumps(schema(), indent=2) + "\n")
        return 0
    directory = options.directory or "."
    if not os.path.isdir(directory):
        raise UsageError(f"{directory} is no directory; name that of the project.")
    text, path = new_profile(directory), os.path.join(os.path.realpath(directory), PROJECT_FILE)
    if options.only_print:
        say_as_is(text)
        return 0
    if os.path.lexists(path) and not options.force:
        raise UsageError(f"{path} is there already; edit it, or give --force to replace it.")
    new = f"{path}.new"
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(new, path)
    except OSError as error:
        raise HuskError(f"{path} cannot be written ({error.strerror}); print it with --print.") from None
    file_of_profiles = ProfileFile(path, text.encode())  # another process may have replaced the file by now
    trust(path, file_of_profiles.content)
    names = list(file_of_profiles.profiles)
    lines = [f"{path} has the profiles {', '.join(names)}, and is trusted; read it and change what does not fit.",
             "Try: husk run -- sh -c 'ls; date > made-in-a-box'"]  # fmt: skip
    say_result({"file": path, "profiles": names}, lines, as_json=options.json)
    return 0


def _trust(options: Values) -> int:
    if options.show_list:
        known = [{"file": path, "sha256": digest} for path, digest in trusted()]
        say_result({"trusted": known}, [one["file"] for one in known] or ["No file is trusted."], as_json=options.json)
        return 0
    path = options.file or project_file()
    if os.path.isdir(path):
        path = os.path.join(path, PROJECT_FILE)
    if not path:
        raise UsageError("there is no husk.toml here or above; `husk init` writes one.")
    if options.revoke:
        done = revoke(path)
        said = "is not trusted any more" if done else "was not trusted"
        say_result({"file": place_of(path), "revoked": done}, [f"{path} {said}."], as_json=options.json)
        return 0
    file = ProfileFile(path)
    profiles = {name: [str(setting) for setting in found] for name, found in file.profiles.items()}
    lines = [f"{file.path} gives:"]
    for name, settings in profiles.items():
        lines += [f"  [profile.{name}]", *(f"    {setting}" for setting in settings)]
    if not options.yes and not is_trusted(file.path, file.content):
        if options.json or not os.isatty(0):
            raise UsageError(f"{file.path}: read it, then give --yes.")
        say(*lines, file=sys.stderr)
        say("Trust it? [y/N] ", file=sys.stderr)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return 1
        lines = []
    trust(file.path, file.content)
    say_result(
        {"file": file.path, "profiles": profiles},
        [*lines, f"{file.path} is trusted until it changes."],
        as_json=options.json,
    )
    return 0
