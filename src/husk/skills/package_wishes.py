"""skills: packages that a caller names beside those of a skill, and where the lock of a manifest's packages lies."""

from __future__ import annotations

import re
from pathlib import Path

from husk.sandbox.errors import UsageError
from husk.skills.scan.distributions import NPM, is_requirement

NPM_PREFIX = "npm:"
NPM_WISH = re.compile(rf"{NPM.pattern}(?:@[\^~]?[\w.+-]+)?", re.I)


def read_wishes(texts: list[str], what: str) -> tuple[list[str], list[str]]:
    """Requirements for pip, and for npm. `what` names the option in errors."""
    pip, npm_wishes = list[str](), list[str]()
    for text in texts:
        npm = text.startswith(NPM_PREFIX)
        name = text.removeprefix(NPM_PREFIX)
        if not (NPM_WISH.fullmatch(name) if npm else is_requirement(name)):
            raise UsageError(
                f"{what} {text}: write a package with versions and extras, such as 'mcp<2' or 'markitdown[all]', or "
                f"{NPM_PREFIX}NAME@VERSION."
            )
        (npm_wishes if npm else pip).append(name.strip())
    return pip, npm_wishes


def lock_beside_manifest(manifest: Path) -> Path:
    """Where the versions and hashes of a manifest's packages are: x.permissions.lock beside x.permissions.toml."""
    return manifest.with_suffix(".lock")


def lock_of(manifests: list[Path]) -> Path | None:
    """The lock that holds without being named: that of the only manifest, if there is one."""
    found = lock_beside_manifest(manifests[0]) if len(manifests) == 1 else None
    return found if found is not None and found.exists() else None
