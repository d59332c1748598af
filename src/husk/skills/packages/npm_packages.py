"""skills: npm packages for a skill, installed by npm inside a box, without running their install scripts: from tarballs
without network, or from the registry with network only to there. npm's own package-lock.json is the lock."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.policy import Mount
from husk.skills.box_runner import Setting, run
from husk.skills.packages.layers import Filled, Layer, get_layer, image_content, read_untrusted, today
from husk.skills.packages.sources import Source

# Where node looks for imports of a script below /skill: in its folder, then in each one above it.
PLACE = "/node_modules"
MOST_MANIFEST = 1 << 20
LIMITS = {"time": "15m", "memory": "4G"}


def name_of(wanted: str) -> str:
    """`@scope/name@^1.2` and `name@1` without the version."""
    return wanted[0] + wanted[1:].partition("@")[0]


def lock_beside(lock: Path) -> Path:
    """Where `--lock FILE` keeps npm's lock; FILE itself is pip's."""
    return lock.with_name(f"{lock.name}.npm.json")


def provide_npm(
    wanted: list[str],
    setting: Setting,
    *,
    find_links: Path | None,
    fetch: Callable[[], Source] | None,
    lock: Path | None,
    fresh: bool = False,
) -> Layer:
    pins = _read_lock(lock_beside(lock), wanted) if lock is not None else ""

    def fill(content: Path) -> Filled:
        argv = ["npm", "ci" if pins else "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", "/layer"]
        policy = setting.policy(argv, [Mount(str(content), "/layer", "rw", ruled=False)], limits=LIMITS)
        if pins:
            (content / "package-lock.json").write_text(pins)
            roots = json.loads(pins)["packages"][""].get("dependencies", {})
            (content / "package.json").write_text(json.dumps({"dependencies": roots}))
        if find_links is not None:
            tarballs = _with_needs([name_of(item) for item in wanted], find_links)
            argv += ["--offline", *(f"/tarballs/{tarball.name}" for tarball in tarballs if not pins)]
            policy.mounts.append(Mount(str(find_links.resolve()), "/tarballs"))
        elif fetch is not None:
            source = fetch()
            argv += [*source.options, *(["--", *wanted] if not pins else [])]
            policy.allow_net, policy.mounts = source.hosts, [*policy.mounts, *source.mounts]
        else:
            raise UsageError(
                f"the skill needs the npm packages {', '.join(wanted)}; give --find-links DIR with their tarballs "
                "(npm pack NAME makes one), --packages DIR with a node_modules in it, or --fetch."
            )
        result = run(policy, stdin=b"", capture=True)
        if result.exit_code:
            raise UsageError(f"npm cannot install {', '.join(wanted)}: {_said(result.stderr or b'')}.")
        return content / "node_modules", _read_left(content / "package-lock.json")

    about: dict[str, object] = {"npm": sorted(wanted), "image": image_content(setting.store, setting.image)}
    about |= today(fresh)
    found = get_layer(setting.store, "npm", about | ({"pins": pins} if pins else {}), fill, pinned=pins)
    if lock is not None and not pins:
        lock_beside(lock).write_text(found.lock)
    return found


def _read_lock(path: Path, wanted: list[str]) -> str:
    """The text of an existing package-lock.json, checked to hold what is wanted now."""
    try:
        text = path.read_text("utf-8")
        roots = json.loads(text)["packages"][""].get("dependencies", {})
        lacking = [item for item in wanted if name_of(item) not in roots]
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: not a lock that npm wrote ({error}).") from None
    if lacking:
        raise UsageError(f"{path}: holds no {', '.join(lacking)}; `husk skill lock` writes it again.")
    return text


def _read_left(path: Path) -> str:
    try:
        return read_untrusted(path)
    except (OSError, ValueError) as error:
        raise HuskError(f"npm's {path.name} cannot be read ({error}).") from None


def _said(output: bytes) -> str:
    """npm's error lines, without the one that says where the log is."""
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line.partition(" ")[2].removeprefix("error ").strip() for line in lines if line.startswith("npm err")]
    told = [line for line in errors if line and not line.startswith(("code ", "errno ", "A complete log"))]
    text = (told or errors or lines or ["it said nothing"])[0]
    return "".join(c if c.isprintable() else " " for c in text).rstrip(".")


def _with_needs(names: list[str], folder: Path) -> list[Path]:
    """The tarballs of these packages and of all their dependencies."""
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
    """(name, dependencies) of a tarball; empty if it is no package. Nothing is unpacked."""
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
