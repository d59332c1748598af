"""cli/compat: `husk seccomp from`: a seccomp profile from traces."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from husk.cli.exit_codes import run_command
from husk.cli.options.compat_options import SECCOMP
from husk.cli.out_file import write_text
from husk.cli.output import say_result
from husk.compat.census import read_census
from husk.compat.seccomp_profile import (
    Profile,
    as_surface,
    docker_json,
    in_order,
    oci_json,
    profile_from,
    systemd_lines,
)
from husk.compat.surface import ERRNO_NAMES
from husk.compat.surface_writer import write_surface

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def _from(options: Values) -> int:
    profile = profile_from([read_census(Path(name)) for name in options.traces])
    body = _body(profile, options.format, Path(options.out or options.traces[0]).stem)
    text = body if isinstance(body, str) else json.dumps(body, indent=2) + "\n"
    if options.out:
        write_text(options.out, text)
    document = {
        "format": options.format,
        "allowed": in_order(profile),
        "added": profile.added,
        "refused": {call: ERRNO_NAMES[errno] for call, errno in profile.refused.items()},
        "out": options.out or None,
        "profile": body,
    }
    lines = _told(options.out, profile) if options.out else text.splitlines()
    say_result(document, lines, as_json=options.json)
    return 0


def _body(profile: Profile, form: str, name: str) -> dict[str, Any] | str:
    if form == "docker":
        return docker_json(profile)
    if form == "oci":
        return oci_json(profile)
    if form == "systemd":
        return "\n".join(systemd_lines(profile)) + "\n"
    return write_surface(as_surface(profile, name, time.strftime("%Y-%m-%d", time.gmtime())))


def _told(out: str, profile: Profile) -> list[str]:
    seen = len(profile.allowed) - len(profile.added)
    lines = [f"{out}: {seen} calls that were seen, and {len(profile.added)} that any program may need, pass"]
    if profile.refused:
        lines.append(f"as in the trace, these fail: {', '.join(profile.refused)}")
    return lines


_HANDLERS = {"from": _from}


def main(argv: list[str]) -> int:
    return run_command(SECCOMP, argv, _HANDLERS)
