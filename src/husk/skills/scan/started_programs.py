"""skills: which programs a program starts itself, as far as the machine's files tell: `soffice` is a shell script,
`git` has a directory of helpers. For proposals only; `husk skill learn` records what a run really starts."""

from __future__ import annotations

import os
import shutil

from husk.sandbox.policy import DEFAULT_PATH
from husk.skills.syntax.shell_commands import shell_programs
from husk.skills.syntax.syntax_parser import SyntaxParser

HEAD = 1 << 16
HELPERS = ("/usr/lib/{}/", "/usr/lib/{}-core/", "/usr/libexec/{}/")


def started_programs(program: str, parser: SyntaxParser | None = None) -> list[str]:
    """Entries for [programs] that `program` needs too; none if it is not on this machine."""
    found = shutil.which(program, path=DEFAULT_PATH)
    if found is None:
        return []
    true = os.path.realpath(found)
    entries = {place for place in (form.format(program) for form in HELPERS) if os.path.isdir(place)}
    home = os.path.dirname(true)
    if home not in {os.path.realpath(folder) for folder in DEFAULT_PATH.split(":")}:
        # Installed in a directory of its own: /usr/lib/libreoffice/program, /usr/lib/jvm/java-17/bin.
        entries.add((os.path.dirname(home) if os.path.basename(home) == "bin" else home) + "/")
    entries.update(_of_script(true, parser))
    return sorted(entries - {program})


def _of_script(path: str, parser: SyntaxParser | None) -> set[str]:
    try:
        with open(path, "rb") as file:
            text = file.read(HEAD).decode("utf-8", "replace")
    except OSError:
        return set()
    if not text.startswith("#!"):
        return set()
    words = [word for word in text[2:].split("\n", 1)[0].split() if not word.startswith("-")]
    names = {os.path.basename(word) for word in words} - {"env"}
    if names & {"sh", "bash", "dash"}:
        names |= {name for name in shell_programs(text, parser) if shutil.which(name, path=DEFAULT_PATH)}
    return names
