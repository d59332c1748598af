"""`make fuzz-c`: husk's C core under AddressSanitizer and UndefinedBehaviourSanitizer.

Builds the extension anew with both, beside the installed one, lets the unit tests that feed it forged input run on it
(manifests), and then the fuzzing guest: every structure the core decodes for a guest (names, addresses, control
messages, signal actions, working directories) arrives there as a hostile guest would send it.
The first finding ends the process, and with it the run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.lib.call_table import write_call_table

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src" / "husk"
TARGET = ROOT / "build" / "sanitized"
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
FLAGS = ["-std=gnu11", "-g", "-O1", "-fno-omit-frame-pointer", *SANITIZE, "-fPIC", "-shared"]
UNIT_TESTS = ["tests/unit/store/test_forged.py"]


def helpers() -> Path:
    """husk-init and husk-loader as they are: they run in the guest's place and take nothing from it."""
    beside = [SOURCE / "native", *(Path(path, "husk", "native") for path in (sysconfig.get_path("platlib"),))]
    return next(place for place in beside if (place / "husk-loader").exists())


def build() -> None:
    package = TARGET / "husk"
    shutil.rmtree(TARGET, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "husk-init", "husk-loader")
    shutil.copytree(SOURCE, package, ignore=ignored)
    for name in ("husk-init", "husk-loader"):
        shutil.copy(helpers() / name, package / "native" / name)
    # The list of the build file, so that the two cannot differ.
    recipe = (SOURCE / "native" / "meson.build").read_text()
    listed = re.search(r"extension_module\(\s*'_core',\s*\[(.*?)\]", recipe, re.S)
    assert listed
    files = re.findall(r"'([\w/]+\.c)'", listed[1])
    output = package / "native" / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    write_call_table(package / "native")
    include = [f"-I{sysconfig.get_path('include')}", "-I."]
    subprocess.run(["gcc", *FLAGS, *include, *files, "-o", str(output)], cwd=package / "native", check=True)


def environment() -> dict[str, str]:
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    return {
        **os.environ,
        "LD_PRELOAD": os.path.realpath(library.stdout.strip()),
        # Python itself never frees everything. The guest does not inherit the preload: husk cleans its environment.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:handle_segv=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": f"{TARGET}:{ROOT}",
        "PYTHONMALLOC": "malloc",  # so that a use after free in a Python object is seen as well
    }


def main(arguments: list[str]) -> int:
    seed, calls = (arguments if len(arguments) == 2 else ["1", "20000"])
    build()
    env = environment()
    # The package must come from TARGET, wherever else one is installed; `-c` proves that first.
    proof = "import husk.native._core as c, sys; sys.exit('build/sanitized' not in c.__file__)"
    subprocess.run([sys.executable, "-c", proof], env=env, check=True)
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tests = subprocess.run([*pytest, *UNIT_TESTS], cwd=ROOT, env=env, check=False)
    if tests.returncode:
        return tests.returncode
    command = TARGET / "husk-sanitized"
    kept = ("LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS", "PYTHONMALLOC")
    settings = " ".join(f"{key}='{env[key]}'" for key in kept)
    command.write_text(f"#!/bin/sh\n{settings} PYTHONPATH='{TARGET}' exec '{sys.executable}' -m husk.cli \"$@\"\n")
    command.chmod(0o755)
    outside = {**os.environ, "HUSK_CMD": str(command), "PYTHONPATH": f"{ROOT}"}
    for options in ([], ["--no-namespaces"]):
        command_line = [sys.executable, "-m", "tests.fuzz.run", seed, calls, *options]
        done = subprocess.run(command_line, cwd=ROOT, env=outside, check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
