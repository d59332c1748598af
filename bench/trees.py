"""The files that workloads work on: a large tree, a repository, a project in C, wheels, npm packages, modules.

Made once per run, by the user that measures, from nothing but the standard library: no network is needed.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

from measure import BUILD
from store import grow

PACKAGES, FILES_EACH = 20, 30
HELLO = '#include <stdio.h>\nint main(void)\n{\n    puts("hello");\n    return 0;\n}\n'
MAKEFILE = """OBJECTS := $(patsubst %.c,$(O)/%.o,$(wildcard *.c))
$(O)/program: $(OBJECTS)
\t$(CC) -o $@ $^
$(O)/%.o: %.c
\t$(CC) -c -o $@ $<
"""


class Trees:
    """Where everything lies below the place, and how much of it there is: `scale` divides it."""

    def __init__(self, place: Path, scale: int) -> None:
        self.place = place
        self.files, self.tracked, self.packed = 20_000 // scale, 10_000 // scale, 5_000 // scale
        self.units, self.modules, self.megabytes = 200 // scale, 300 // scale, 500 // scale
        self.tree, self.repository, self.archive = place / "tree", place / "repository", place / "files.tar"
        self.project, self.python, self.wheels = place / "project", place / "modules", place / "wheels"
        self.npm, self.large, self.hello = place / "npm", place / "large", place / "hello.c"
        self.file = place / "d" / "file"

    def make_small(self) -> None:
        """What programs need that are only started."""
        self.file.parent.mkdir()
        self.file.write_text("x")
        shutil.copy2(BUILD / "calls", self.place)  # not every sandbox shows the checkout
        self.hello.write_text(HELLO)

    def make(self) -> None:
        self.make_small()
        grow(self.tree, self.files)
        (self.tree / "match").write_text("husk\n")  # grep fails if it finds nothing
        self.make_repository()
        self.make_archive()
        self.make_project()
        self.make_modules()
        self.make_wheels()
        self.make_npm()
        with self.large.open("wb") as file:
            piece = os.urandom(1 << 20)
            for _ in range(self.megabytes):
                file.write(piece)

    def make_repository(self) -> None:
        grow(self.repository, self.tracked)
        user = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        for words in (["init", "-q"], ["add", "."], [*user, "commit", "-q", "-m", "all"], ["status"]):
            command = ["git", "-C", str(self.repository), *words]
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def make_archive(self) -> None:
        source = self.place / "packed"
        grow(source, self.packed)
        with tarfile.open(self.archive, "w") as archive:
            archive.add(source, "packed")

    def make_project(self) -> None:
        self.project.mkdir()
        (self.project / "Makefile").write_text(MAKEFILE)
        (self.project / "main.c").write_text(HELLO)
        for number in range(self.units - 1):
            text = f'#include <stdio.h>\nint part{number}(int n)\n{{\n    return printf("%d\\n", n + {number});\n}}\n'
            (self.project / f"part{number}.c").write_text(text)

    def make_modules(self) -> None:
        self.python.mkdir()
        for number in range(self.modules):
            (self.python / f"bench_{number}.py").write_text(f"def value():\n    return {number}\n")
        (self.python / "all_of_them.py").write_text("".join(f"import bench_{n}\n" for n in range(self.modules)))

    def make_wheels(self) -> None:
        """Pure wheels, without dependencies: what an installer needs and nothing more."""
        self.wheels.mkdir()
        for number in range(PACKAGES):
            name, info = f"benchwheel{number}", f"benchwheel{number}-1.0.dist-info"
            files = {f"{name}/part{n}.py": f"value = {n}\n" for n in range(FILES_EACH)}
            files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
            tags = "Root-Is-Purelib: true\nTag: py3-none-any\n"
            files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: bench\n{tags}"
            files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in files) + f"{info}/RECORD,,\n"
            with zipfile.ZipFile(self.wheels / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
                for path, text in files.items():
                    wheel.writestr(path, text)

    def make_npm(self) -> None:
        self.npm.mkdir()
        for number in range(PACKAGES):
            about = {"name": f"benchnpm{number}", "version": "1.0.0"}
            files = {f"part{n}.js": f"exports.value = {n};\n" for n in range(FILES_EACH)}
            files["package.json"] = json.dumps(about)
            with tarfile.open(self.npm / f"benchnpm{number}.tgz", "w:gz") as archive:
                for path, text in files.items():
                    entry = tarfile.TarInfo(f"package/{path}")
                    entry.size, entry.mode = len(text), 0o644
                    archive.addfile(entry, io.BytesIO(text.encode()))
