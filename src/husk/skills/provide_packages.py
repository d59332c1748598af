"""skills: find the packages a script needs and put them into its box: from given directories, or as layers.

`PackageProvider` adds mounts, PYTHONPATH and PATH to the policy, notes for the user, and layers that stay leased until
the run is over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from husk.sandbox.errors import UsageError
from husk.sandbox.policy import DEFAULT_PATH, Mount, Policy
from husk.skills.packages import npm_packages, pip_packages
from husk.skills.packages.layers import Layer
from husk.skills.packages.sources import npm_source, pip_source
from husk.skills.scan.describe import PACKAGES, REQUIREMENTS, Description, reachable_scripts
from husk.skills.scan.distributions import distribution_key, distribution_of
from husk.skills.scan.languages import Script

if TYPE_CHECKING:
    from husk.skills.running import Request

GIVEN_PACKAGES = "/opt/skill/packages"


@dataclass
class PackageProvider:
    request: Request
    policy: Policy
    notes: list[str]
    given: list[str] = field(default_factory=list)  # the requirements that layers were made for; npm:NAME for npm
    layers: list[Layer] = field(default_factory=list)
    locks: dict[str, str] = field(default_factory=dict)  # "packages" (pip's) and "npm": the text of each lock

    def provide(self, found: Description, script: Script | None) -> None:
        """Provide what `script` needs; None: what any script needs."""
        try:
            self._mount_directories()
            reached = found.code if script is None else reachable_scripts(found, script)
            self._for_python(found, reached)
            self._for_node(found, reached)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for layer in self.layers:
            layer.close()
        self.layers.clear()

    def _mount_directories(self) -> None:
        """Mount --packages DIR as it is: a venv, a directory with a node_modules, or a directory of Python packages."""
        for number, folder in enumerate(self.request.packages):
            if not folder.is_dir():
                raise UsageError(f"--packages {folder}: there is no such directory.")
            sites = sorted(folder.glob("lib/python3*/site-packages"))
            modules = folder if folder.name == "node_modules" else folder / "node_modules"
            if modules.is_dir() and not sites:
                self.policy.mounts.append(Mount(str(modules.resolve()), npm_packages.PLACE))
                self._search("PATH", f"{npm_packages.PLACE}/.bin")
                continue
            place = f"{GIVEN_PACKAGES}{number}"
            self.policy.mounts.append(Mount(str((sites[0] if sites else folder).resolve()), place))
            self._search("PYTHONPATH", place)

    def _for_python(self, found: Description, reached: list[Script]) -> None:
        # requirements.txt and package.json hold for all scripts; imports found by reading, for those that run.
        paths = {item.path for item in reached} | set(REQUIREMENTS)
        modules = {name: maybe for item in reached if item.language == "python" for name, maybe in item.modules.items()}
        declared = [
            text for text, where in found.pip.items() if " imports " not in where and where.split(" ")[0] in paths
        ]
        request = self.request
        listed = request.permissions.pip if request.permissions else []
        chosen = _merged([declared, listed, request.wanted], distribution_key)
        if not modules and not chosen:
            return
        given = [mount for mount in self.policy.mounts if mount.target.startswith(GIVEN_PACKAGES)]
        missing = pip_packages.find_missing(request.setting, given, self.policy.env, sorted(modules), chosen)
        needed = [*missing.requirements, *self._distributions(missing.modules, modules, chosen)]
        names = {distribution_key(text) for text in listed} if request.permissions else None
        _check("pip", needed, names, distribution_key)
        asked = {distribution_key(text) for text in [*declared, *request.wanted]}
        asked |= {distribution_key(distribution_of(name)) for name, maybe in modules.items() if not maybe}

        def make(needed: list[str]) -> Layer:
            return pip_packages.provide_pip(
                needed,
                missing.python,
                request.setting,
                find_links=request.find_links,
                fetch=(lambda: pip_source(request.index, request.index_hosts)) if request.fetch else None,
                lock=request.lock,
                fresh=request.fresh,
            )

        layer, needed = self._layer(make, needed, [text for text in needed if distribution_key(text) in asked])
        if layer is None:
            return
        self._show(layer, "packages", needed, pip_packages.PLACE)
        self._search("PYTHONPATH", pip_packages.PLACE)
        self._search("PATH", f"{pip_packages.PLACE}/bin")

    def _layer(
        self, make: Callable[[list[str]], Layer], needed: list[str], asked: list[str]
    ) -> tuple[Layer | None, list[str]]:
        """A layer of what is needed. What only the manifest lists may be missing where there is no source for it."""
        request = self.request
        try:
            return (make(needed) if needed else None), needed
        except UsageError:
            if len(asked) == len(needed) or request.find_links or request.fetch:
                raise
        extra = ", ".join(text for text in needed if text not in asked)
        self.notes.append(f"the manifest lists {extra}, which the box lacks; --fetch or --find-links installs it")
        return (make(asked) if asked else None), asked

    def _distributions(self, missing: list[str], modules: dict[str, bool], declared: list[str]) -> list[str]:
        """The distributions of the missing modules, without those a script can do without."""
        covered, needed = {distribution_key(text) for text in declared}, list[str]()
        for module in missing:
            name = distribution_of(module)
            if distribution_key(name) in covered:
                continue
            if modules[module] and not (self.request.find_links or self.request.fetch):
                self.notes.append(f"{name} is not in the box; the script can do without it")
            elif modules[module]:
                self.notes.append(f"{name} is optional and not installed; --with {name} installs it")
            else:
                needed.append(name)
        return needed

    def _for_node(self, found: Description, reached: list[Script]) -> None:
        request = self.request
        listed = request.permissions.npm if request.permissions else []
        if not any(item.language in ("node", "typescript") for item in reached) and not (listed or request.wanted_npm):
            return
        if (found.skill.root / "node_modules").is_dir():
            return
        paths = {item.path for item in reached} | set(PACKAGES)
        used = [text for text, where in found.npm.items() if where.removesuffix(" requires it") in paths]
        wanted = _merged([used, listed, request.wanted_npm], npm_packages.name_of)
        have = [Path(mount.source) for mount in self.policy.mounts if mount.target == npm_packages.PLACE]
        lacking = [text for text in wanted if not any((place / npm_packages.name_of(text)).exists() for place in have)]
        names = {npm_packages.name_of(text) for text in listed if text} if request.permissions else None
        _check("npm", lacking, names, npm_packages.name_of)
        if not lacking or have:
            return
        asked = {npm_packages.name_of(text) for text in [*used, *request.wanted_npm]}

        def make(lacking: list[str]) -> Layer:
            return npm_packages.provide_npm(
                lacking,
                request.setting,
                find_links=request.find_links,
                fetch=(lambda: npm_source(request.registry, request.index_hosts)) if request.fetch else None,
                lock=request.lock,
                fresh=request.fresh,
            )

        layer, lacking = self._layer(make, lacking, [text for text in lacking if npm_packages.name_of(text) in asked])
        if layer is None:
            return
        self._show(layer, "npm packages", lacking, npm_packages.PLACE)
        self._search("PATH", f"{npm_packages.PLACE}/.bin")

    def _show(self, layer: Layer, what: str, needed: list[str], place: str) -> None:
        self.layers.append(layer)
        self.locks[what.partition(" ")[0]] = layer.lock
        self.given += [f"npm:{text}" if place == npm_packages.PLACE else text for text in needed]
        how = "cached" if layer.cached else "installed in a box"
        self.notes.append(f"{what}: {', '.join(sorted(needed))} ({how})")
        self.policy.mounts.append(Mount(layer.image, place, "image"))

    def _search(self, variable: str, place: str) -> None:
        """Programs of packages come first, modules last: a directory the user gave wins over a layer."""
        if variable == "PATH":
            self.policy.env["PATH"] = f"{place}:{self.policy.env.get('PATH', DEFAULT_PATH)}"
        else:
            self.policy.env[variable] = ":".join(filter(None, [self.policy.env.get(variable, ""), place]))


def _merged(lists: list[list[str]], name_of: Callable[[str], str]) -> list[str]:
    """One requirement for each package: of the last list that has it with versions, else of the last that has it."""
    found: dict[str, str] = {}
    for texts in lists:
        for text in texts:
            if text and (name_of(text) not in found or text != name_of(text) or found[name_of(text)] == name_of(text)):
                found[name_of(text)] = text
    return list(found.values())


def _check(kind: str, needed: list[str], allowed: set[str] | None, name_of: Callable[[str], str]) -> None:
    beyond = [text for text in needed if name_of(text) not in allowed] if allowed is not None else []
    if beyond:
        raise UsageError(
            f"the skill needs the {kind} packages {', '.join(beyond)}, which the manifest does not allow ([packages]); "
            "add them there, or learn the manifest again."
        )
