"""api: husk.run, one program in a box of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from husk.api.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from husk.api.options import Command
    from husk.api.run_result import Result
    from husk.sandbox.policy import Mount


def run(
    args: Command,
    *,
    image: str = "",
    mounts: Iterable[str | Mount] = (),
    hide: Iterable[str] = (),
    deny: Iterable[str] = (),
    protect: Iterable[str] = (),
    allow: Iterable[str] = (),
    default_rules: bool = True,
    net: str | Iterable[str] | None = None,
    limits: Mapping[str, int | str | None] | None = None,
    input: str | bytes | None = None,
    capture_output: bool = False,
    shell: bool = False,
    cwd: str = "",
    timeout: float | None = None,
    check: bool = False,
    text: bool | None = None,
    env: Mapping[str, str] | None = None,
    events: bool = False,
) -> Result:
    """One program in a box of its own, which is gone afterwards."""
    with Sandbox(
        image,
        mounts=mounts,
        hide=hide,
        deny=deny,
        protect=protect,
        allow=allow,
        default_rules=default_rules,
        net=net,
        env=env,
        cwd=cwd,
        limits=limits,
        events=events,
    ) as box:
        return box.run(
            args, input=input, capture_output=capture_output, shell=shell, timeout=timeout, check=check, text=text
        )


__all__ = ["run"]
