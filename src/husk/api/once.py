"""api: husk.run, one program in a box of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from husk.api.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from husk.api.options import Command, Environment, Target, Word
    from husk.api.run_result import Result
    from husk.sandbox.policy import Mount


def run(
    args: Command,
    *,
    # As subprocess.run has them.
    bufsize: int = -1,
    executable: Word | None = None,
    input: str | bytes | None = None,
    stdin: Target = None,
    stdout: Target = None,
    stderr: Target = None,
    capture_output: bool = False,
    shell: bool = False,
    cwd: Word | None = None,
    timeout: float | None = None,
    check: bool = False,
    encoding: str | None = None,
    errors: str | None = None,
    text: bool | None = None,
    universal_newlines: bool | None = None,
    env: Environment | None = None,
    # As Sandbox has them.
    image: str = "",
    mounts: Iterable[str | Mount] = (),
    hide: Iterable[str] = (),
    deny: Iterable[str] = (),
    protect: Iterable[str] = (),
    allow: Iterable[str] = (),
    default_rules: bool = True,
    net: str | Iterable[str] | None = None,
    deny_net: Iterable[str] = (),
    allow_http: Iterable[str] = (),
    inject: Iterable[str] = (),
    publish: Iterable[str] = (),
    allow_sockets: Iterable[str] = (),
    devices: Iterable[str] = (),
    limits: Mapping[str, int | str | None] | None = None,
    keep: str = "",
    events: bool = False,
    namespaces: bool = True,
    weaken: Iterable[str] = (),
    store: str = "",
) -> Result:
    """One program in a box of its own, which is gone afterwards unless `keep` names it. The arguments are those of
    subprocess.run and of Sandbox, and `Sandbox.run` says what is different from subprocess."""
    # What a kept box is to remember is the box's own.
    place = os.fsdecode(cwd) if cwd is not None else ""
    with Sandbox(
        image,
        env=env,
        cwd=place if place.startswith("/") else "",
        mounts=mounts,
        hide=hide,
        deny=deny,
        protect=protect,
        allow=allow,
        default_rules=default_rules,
        net=net,
        deny_net=deny_net,
        allow_http=allow_http,
        inject=inject,
        publish=publish,
        allow_sockets=allow_sockets,
        devices=devices,
        limits=limits,
        keep=keep,
        events=events,
        namespaces=namespaces,
        weaken=weaken,
        store=store,
    ) as box:
        return box.run(
            args,
            bufsize=bufsize,
            executable=executable,
            input=input,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            capture_output=capture_output,
            shell=shell,
            cwd=place or None,
            timeout=timeout,
            check=check,
            encoding=encoding,
            errors=errors,
            text=text,
            universal_newlines=universal_newlines,
        )


__all__ = ["run"]
