"""Packages for npm and pip, made on the spot: nothing is fetched from anywhere."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile


def npm_project(count: int) -> dict[str, str | bytes]:
    """A project that depends on `count` packages in directories beside it; each needs the one before."""
    tree: dict[str, str | bytes] = {}
    names = [f"pack{number}" for number in range(count)]
    for number, name in enumerate(names):
        needs = {names[number - 1]: f"file:../{names[number - 1]}"} if number % 10 else {}
        about = {"name": name, "version": f"1.0.{number}", "main": "main.js", "dependencies": needs}
        tree[f"packages/{name}/package.json"] = json.dumps(about, indent=2)
        tree[f"packages/{name}/main.js"] = f"module.exports = {number};\n"
        tree[f"packages/{name}/lib/more.js"] = "// more\n" * (number % 20)
        tree[f"packages/{name}/README.md"] = f"# {name}\n"
    needs = {name: f"file:packages/{name}" for name in names}
    tree["package.json"] = json.dumps({"name": "load", "version": "1.0.0", "dependencies": needs}, indent=2)
    tree["sum.js"] = (
        "const names = Object.keys(require('./package.json').dependencies);\n"
        "console.log(names.length, names.reduce((sum, name) => sum + require(name), 0));\n"
    )
    return tree


def wheel(name: str, modules: int) -> bytes:
    """A wheel with `modules` modules and a command called as itself."""
    files = {f"{name}/__init__.py": f"def main():\n    print('{name} runs')\n"}
    files |= {f"{name}/module{number}.py": f"VALUE = {number}\n" for number in range(modules)}
    about = f"{name}-1.0.dist-info"
    files[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    files[f"{about}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{about}/entry_points.txt"] = f"[console_scripts]\n{name} = {name}:main\n"
    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text)}\n")
    files[f"{about}/RECORD"] = "".join(lines) + f"{about}/RECORD,,\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path, (2015, 1, 1, 0, 0, 0)), text)
    return buffer.getvalue()


def cmake_project(count: int) -> dict[str, str | bytes]:
    """A library of `count` sources and a program that adds up what they return."""
    numbers = range(count)
    sources = " ".join(f"part{number}.c" for number in numbers)
    tree: dict[str, str | bytes] = {}
    for number in numbers:
        tree[f"part{number}.c"] = f'#include "all.h"\nint part{number}(void) {{ return {number}; }}\n'
    tree["all.h"] = "".join(f"int part{number}(void);\n" for number in numbers)
    tree["main.c"] = (
        '#include <stdio.h>\n#include "all.h"\n'
        f"int main(void) {{ printf(\"%d\\n\", {' + '.join(f'part{n}()' for n in numbers)}); return 0; }}\n"
    )
    tree["CMakeLists.txt"] = (
        "cmake_minimum_required(VERSION 3.16)\nproject(load C)\n"
        f"add_library(parts SHARED {sources})\nadd_executable(main main.c)\ntarget_link_libraries(main parts)\n"
        "install(TARGETS main parts)\ninstall(FILES all.h DESTINATION include)\n"
        "enable_testing()\nadd_test(NAME sum COMMAND main)\n"
    )
    return tree
