"""skills/testing: the packages of a box for a native run beside it: the same layers and directories, on the host.

Without them `--fetch` would serve only one of the two sides that a comparison has.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from husk.sandbox.errors import HuskError
from husk.sandbox.policy import DEFAULT_PATH, Mount
from husk.skills.box_runner import Setting
from husk.skills.box_runner import run as run_box
from husk.skills.packages import npm_packages
from husk.skills.provide_packages import PackageProvider
from husk.skills.running import Request
from husk.skills.scan.describe import Description
from husk.skills.scan.languages import Script


@dataclass
class NativePackages:
    """`env` has PATH and, if there are Python packages, PYTHONPATH."""

    env: dict[str, str] = field(default_factory=lambda: {"PATH": DEFAULT_PATH})
    node_modules: Path | None = None


@contextmanager
def native_packages(found: Description, script: Script, request: Request) -> Iterator[NativePackages]:
    """What `script` needs on the host. HuskError: it cannot be had."""
    # The programs of the host run it, whatever image the box has.
    asked = replace(request, setting=replace(request.setting, image=""))
    policy = asked.setting.policy([], [])
    provider = PackageProvider(asked, policy, [])
    provider.provide(found, script)
    try:
        made = NativePackages()
        places = {mount.target: _on_host(mount, asked.setting) for mount in policy.mounts}
        made.node_modules = places.get(npm_packages.PLACE)
        for name, value in policy.env.items():
            if name in ("PATH", "PYTHONPATH"):
                made.env[name] = ":".join(_moved(part, places) for part in value.split(":"))
        yield made
    finally:
        provider.close()


def beside_node_modules(root: Path, place: Path, modules: Path) -> Path:
    """A copy of the skill in `place`, where node finds `modules`: it looks in the folders above a script only."""
    copy = place / "skill"
    shutil.copytree(root, copy, symlinks=True)
    (place / "node_modules").symlink_to(modules)
    return copy


def _moved(part: str, places: dict[str, Path]) -> str:
    for target, place in places.items():
        if part == target or part.startswith(f"{target}/"):
            return str(place) + part[len(target) :]
    return part


class _Copies:
    """Layers as directories of the host, each copied once by a box that sees it. They go when this process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._base: tempfile.TemporaryDirectory[str] | None = None
        self._made: dict[str, Path] = {}

    def get(self, mount: Mount, setting: Setting) -> Path:
        with self._lock:
            if mount.source not in self._made:
                self._made[mount.source] = self._copy(mount, setting)
            return self._made[mount.source]

    def _copy(self, mount: Mount, setting: Setting) -> Path:
        if self._base is None:
            self._base = tempfile.TemporaryDirectory(prefix="husk-packages-")
            os.chmod(self._base.name, 0o755)
        holder = Path(self._base.name, str(len(self._made)))
        holder.mkdir()
        # Its last name stays: node looks for siblings of a package in a folder called node_modules.
        name = Path(mount.target).name
        shown = [Mount(mount.source, "/layer", "image"), Mount(str(holder), "/copy", "rw", ruled=False)]
        result = run_box(setting.policy(["cp", "-a", "/layer", f"/copy/{name}"], shown), stdin=b"", capture=True)
        if result.exit_code:
            said = (result.stderr or b"").decode("utf-8", "replace").strip().splitlines()
            raise HuskError(f"the packages cannot be copied for the native run: {said[-1] if said else 'cp failed'}.")
        return holder / name


_copies = _Copies()


def _on_host(mount: Mount, setting: Setting) -> Path:
    return _copies.get(mount, setting) if mount.mode == "image" else Path(mount.source)
