"""skills: Python packages for a skill: what the box's Python lacks, installed by pip inside a box, pinned by hash.

For a directory of wheels the box has no network; for an index it reaches only that. Only wheels are installed: a source
distribution would have to be run to learn what it needs.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.policy import Mount
from husk.skills.box_runner import Setting, run
from husk.skills.packages.layers import Filled, Layer, get_layer, image_content, read_untrusted, today
from husk.skills.packages.python_probe import PROBE
from husk.skills.packages.sources import Source

PLACE = "/opt/skill/python"
PIP = "/opt/skill/pip"
LIMITS = {"time": "15m", "memory": "4G"}
PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+( --hash=sha256:[0-9a-f]{64})+")


@dataclass
class Missing:
    python: str  # the box's version, "3.11"
    modules: list[str]
    requirements: list[str]


def find_missing(
    setting: Setting, mounts: list[Mount], env: dict[str, str], modules: list[str], wanted: list[str]
) -> Missing:
    """Which of these the box's Python lacks."""
    path = ":".join(filter(None, [env.get("PYTHONPATH", ""), PIP]))
    policy = setting.policy(
        ["python3", "-B", "-c", PROBE], [*mounts, _pip_mount()], env | {"PYTHONPATH": path}, {"time": "60"}
    )
    result = run(policy, stdin=json.dumps({"modules": modules, "requirements": wanted}).encode(), capture=True)
    try:
        answer = json.loads(result.stdout or b"")
        return Missing(answer["python"], answer["modules"], answer["requirements"])
    except (ValueError, KeyError, TypeError):
        raise HuskError(f"the box's python3 does not answer: {_last(result.stderr or b'')}") from None


def provide_pip(
    requirements: list[str],
    python: str,
    setting: Setting,
    *,
    find_links: Path | None,
    fetch: Callable[[], Source] | None,
    lock: Path | None,
    fresh: bool = False,
) -> Layer:
    """A layer with these requirements and their dependencies. `fetch` says from where, if fetching is allowed. `fresh`:
    not as an earlier day resolved them."""
    pins = _read_lock(lock) if lock is not None and lock.exists() else []
    if lock is not None and pins:
        _check_pins(pins, requirements, lock)
    wish: dict[str, object] = {"pip": sorted(requirements), "python": python, "pins": pins} | today(fresh)
    wish["image"] = image_content(setting.store, setting.image)

    def fill(place: Path) -> Filled:
        if find_links is not None and not find_links.is_dir():
            raise UsageError(f"--find-links {find_links}: there is no such directory.")
        if find_links is None and fetch is None:
            raise UsageError(
                f"the box's python3 lacks {', '.join(requirements)}; give --find-links DIR with wheels, --packages DIR "
                "with packages or a venv, or --fetch to get wheels from the package index."
            )
        return _install(requirements, pins, find_links, fetch() if fetch else None, place, setting)

    found = get_layer(setting.store, "pip", wish, fill, pinned="".join(f"{pin}\n" for pin in pins))
    if lock is not None and not lock.exists():
        lock.write_text(found.lock)
    return found


def _install(
    requirements: list[str],
    pins: list[str],
    wheels: Path | None,
    source: Source | None,
    content: Path,
    setting: Setting,
) -> Filled:
    argv = ["python3", "-m", "pip", "install", "--target", "/layer/python", "--report", "/layer/report.json", "--quiet"]
    argv += ["--no-cache-dir", "--disable-pip-version-check", "--no-input", "--no-warn-script-location"]
    mounts = [Mount(str(content), "/layer", "rw", ruled=False), _pip_mount()]
    policy = setting.policy(argv, mounts, {"PYTHONPATH": PIP, "PIP_BREAK_SYSTEM_PACKAGES": "1"}, LIMITS)
    if wheels is not None:
        argv += ["--find-links", "/wheels"]
        mounts.append(Mount(str(wheels.resolve()), "/wheels"))
    if source is not None:
        argv += [*source.options, "--only-binary=:all:"]
        policy.allow_net = source.hosts
        mounts += source.mounts
    else:
        argv += ["--no-index"]
    if pins:
        (content / "pins.txt").write_text("\n".join(pins) + "\n")
        argv += ["--require-hashes", "-r", "/layer/pins.txt"]
    else:
        argv += ["--", *requirements]
    (content / "python").mkdir()
    result = run(policy, stdin=b"", capture=True)
    if result.exit_code:
        refused = [
            f" (refused: {item['what']}: {item['reason']}; if the index keeps files there, --index-host allows it)"
            for item in result.refusals
            if "connection" in str(item["what"])
        ]
        where = source.name if source else wheels
        raise UsageError(
            f"the packages cannot be installed from {where}: {_last(result.stderr or b'')}{''.join(refused[:1])}"
        )
    return content / "python", _lock_text(content / "report.json")


def _lock_text(report: Path) -> str:
    """The lock in pip's own requirements format, so that it can be used without husk. pip's report comes out of a box
    and is untrusted: every line must match the pattern."""
    try:
        installed = json.loads(read_untrusted(report))["install"]
        lines = []
        for item in installed:
            about, archive = item["metadata"], item["download_info"]["archive_info"]
            digest = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").removeprefix("sha256=")
            lines.append(f"{about['name']}=={about['version']} --hash=sha256:{digest}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise HuskError(f"pip's report cannot be read ({error!r}).") from None
    for line in lines:
        if not PIN.fullmatch(line):
            raise HuskError(f"pip reports {line!r}, which is no pinned package.")
    return "".join(f"{line}\n" for line in sorted(lines, key=str.lower))


def _read_lock(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--lock {path}: cannot be read ({error}).") from None
    pins = [line for line in lines if line and not line.startswith("#")]
    for line in pins:
        if not PIN.fullmatch(line):
            raise UsageError(f"--lock {path}: {line!r} is not of the form NAME==VERSION --hash=sha256:….")
    return pins


def _check_pins(pins: list[str], requirements: list[str], lock: Path) -> None:
    """Raise UsageError if the lock lacks a package, or holds a version that is not wanted any more."""
    held = dict(pin.split(" ", 1)[0].split("==", 1) for pin in pins)
    versions = {_key(name): version for name, version in held.items()}
    again = f"`husk skill lock` writes {lock} again"
    for text in requirements:
        name, asked = _key(re.split(r"[\s\[<>=!~;]", text.strip(), maxsplit=1)[0]), text.partition(";")[0]
        if name not in versions:
            raise UsageError(f"--lock {lock}: holds no {name}; {again}.")
        specifier = re.sub(r"^[A-Za-z0-9._-]+\s*(?:\[[^\]]*\])?", "", asked.strip())
        if specifier and not _within(versions[name], specifier):
            raise UsageError(f"--lock {lock}: holds {name} {versions[name]}, which {text} excludes; {again}.")


def _within(version: str, specifier: str) -> bool:
    try:
        from pip._vendor.packaging.specifiers import InvalidSpecifier, SpecifierSet
        from pip._vendor.packaging.version import InvalidVersion
    except ImportError:
        return True  # the lock still pins the version
    try:
        return bool(SpecifierSet(specifier).contains(version, prereleases=True))
    except (InvalidSpecifier, InvalidVersion):
        return True


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pip_mount() -> Mount:
    """Mount husk's own pip in the box: Debian's python3 has none."""
    spec = importlib.util.find_spec("pip")
    if spec is None or not spec.submodule_search_locations:
        raise HuskError("the Python that runs husk has no pip, which installs a skill's packages; python -m ensurepip.")
    return Mount(spec.submodule_search_locations[0], f"{PIP}/pip")


def _last(output: bytes) -> str:
    """The line with the cause: pip's last ERROR, else the last line."""
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    text = (errors or lines or ["it said nothing"])[-1]
    return "".join(c if c.isprintable() else " " for c in text).rstrip(".") + "."
