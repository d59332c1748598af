"""cli: the husk.toml that `husk init` writes, by what the project is."""

from __future__ import annotations

import hashlib
import os
import re

from husk.sandbox.errors import HuskError
from husk.sandbox.kept.kept_boxes import KeptBoxes

# Files that tell what a project is, what it is called, and where its packages come from.
KINDS = (
    (("pyproject.toml", "setup.py", "requirements.txt"), "Python", ("pypi.org", "files.pythonhosted.org")),
    (("package.json",), "Node", ("registry.npmjs.org",)),
    (("Cargo.toml",), "Rust", ("index.crates.io", "static.crates.io")),
    (("go.mod",), "Go", ("proxy.golang.org", "sum.golang.org")),
    (("Gemfile",), "Ruby", ("rubygems.org", "index.rubygems.org")),
    (("composer.json",), "PHP", ("repo.packagist.org", "api.github.com", "codeload.github.com")),
    (("pom.xml", "build.gradle", "build.gradle.kts"), "Java", ("repo.maven.apache.org", "plugins.gradle.org")),
)
TEXT = """\
# How `husk run` runs programs of this project{kinds}. Each key is an option of `husk run` by its long name
# (`husk run --help`); what the command line says comes after it and wins. husk obeys this file once you trust it
# (`husk trust`), and again after each change.
format = 1

# Taken by `husk run` without --profile.
[profile.default]
# The project is shown at /workspace. `cow`: programs change a copy; `husk diff {box}` shows it, and
# `husk apply {box}` writes it back. `rw` would change the files themselves, `ro` none.
mount = [".:/workspace:cow"]
workdir = "/workspace"
# The copy is kept under this name from run to run; `husk drop {box}` forgets it.
keep = "{box}"
# No network but the box's own. A server inside is reached from the host through a published port:
# publish = ["8000:8000"]
# Names below the mount that do not exist for programs, beside those of `husk rules`:
# hide = ["*.pem"]
# env = {{ CI = "1" }}
# env-file = [".env"]
# limit = {{ memory = "4G", time = "10m" }}

# `husk run --profile install -- …`: the same, with the hosts that packages come from.
[profile.install]
mount = [".:/workspace:cow"]
workdir = "/workspace"
keep = "{box}"
allow-net = [{hosts}]
"""


def new_profile(directory: str) -> str:
    there = set(os.listdir(directory))
    kinds = [(name, hosts) for files, name, hosts in KINDS if there.intersection(files)]
    hosts = [host for _, several in kinds for host in several] or ["pypi.org", "files.pythonhosted.org"]
    return TEXT.format(
        kinds=f" ({', '.join(name for name, _ in kinds)})" if kinds else "",
        box=_box_name(os.path.realpath(directory)),
        hosts=", ".join(f'"{host}:443"' for host in hosts),
    )


def _box_name(directory: str) -> str:
    """Like the directory; where another directory has a box of that name, with a part of its own."""
    name = re.sub(r"[^a-z0-9._-]+", "-", os.path.basename(directory).lower()).strip("-._")[:40] or "project"
    kept = KeptBoxes()
    if name not in kept.names():
        return name
    try:
        record = kept.find(name)
    except HuskError:
        record = None
    if record is not None and any(source == directory for source, _, _ in record.mounts):
        return name
    return f"{name}-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:6]}"
