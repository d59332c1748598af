"""skills: npm packages for a skill, installed by npm inside a box, without running their install scripts: from tarballs
without network, or from the registry with the way there and no other. npm's own package-lock.json is the lock."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

from husk.sandbox.errors import UsageError
from husk.sandbox.policy import Mount
from husk.skills.boxes import Setting, Wish, run
from husk.skills.layers import Layer, layer
from husk.skills.pip_packages import CERTIFICATES

# Where node looks from /skill for what a script imports: its own folder, then each one above it.
PLACE = "/node_modules"
MOST_MANIFEST = 1 << 20
REGISTRY = "registry.npmjs.org"
LIMITS = {"time": "15m", "memory": "4G"}


def name_of(wanted: str) -> str:
    """`@scope/name@^1.2` and `name@1` without the version."""
    return wanted[0] + wanted[1:].partition("@")[0]


def provide_npm(wanted: list[str], setting: Setting, *, find_links: Path | None, fetch: bool) -> Layer:
    def fill(content: Path) -> str:
        argv = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", "/layer"]
        wish = Wish(argv, mounts=[Mount(str(content), "/layer", "rw")], limits=LIMITS, setting=setting)
        if find_links is not None:
            tarballs = _with_needs([name_of(item) for item in wanted], find_links)
            argv += ["--offline", *(f"/tarballs/{tarball.name}" for tarball in tarballs)]
            wish.mounts.append(Mount(str(find_links.resolve()), "/tarballs"))
        elif fetch:
            argv += ["--registry", f"https://{REGISTRY}", "--", *wanted]
            wish.hosts = [f"{REGISTRY}:443"]
            if os.path.exists(CERTIFICATES):
                wish.env["NODE_EXTRA_CA_CERTS"] = CERTIFICATES
        else:
            raise UsageError(
                f"the skill needs the npm packages {', '.join(wanted)}; give --find-links DIR with their tarballs "
                "(npm pack NAME makes one), --packages DIR with a node_modules in it, or --fetch."
            )
        outcome = run(wish, stdin=b"", capture=True)
        if outcome.exit_code:
            lines = [line for line in outcome.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
            raise UsageError(f"npm cannot install {', '.join(wanted)}: {lines[0] if lines else 'it said nothing'}.")
        return (content / "package-lock.json").read_text()

    return layer({"npm": sorted(wanted), "image": setting.image}, fill)


def _with_needs(names: list[str], folder: Path) -> list[Path]:
    """The tarballs of these packages and of all they depend on."""
    if not folder.is_dir():
        raise UsageError(f"--find-links {folder}: there is no such directory.")
    known = {name: (tarball, needs) for tarball in sorted(folder.glob("*.tgz")) for name, needs in _manifest(tarball)}
    found, waiting = dict[str, Path](), list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        if name not in known:
            raise UsageError(f"there is no tarball of the npm package {name} in {folder}; `npm pack {name}` makes one.")
        found[name] = known[name][0]
        waiting += known[name][1]
    return sorted(found.values())


def _manifest(tarball: Path) -> list[tuple[str, list[str]]]:
    """(name, what it depends on) of a tarball; nothing if it is none. Nothing is unpacked."""
    try:
        with tarfile.open(tarball) as packed:
            for member in packed:
                if member.isfile() and member.name.count("/") == 1 and member.name.endswith("/package.json"):
                    file = packed.extractfile(member)
                    data = json.loads(file.read(MOST_MANIFEST)) if file else {}
                    return [(str(data["name"]), list(data.get("dependencies", {})))]
    except (OSError, tarfile.TarError, ValueError, KeyError, TypeError, EOFError):
        pass
    return []
