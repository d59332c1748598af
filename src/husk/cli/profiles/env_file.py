"""cli: files of environment variables, as `docker run --env-file` reads them."""

from __future__ import annotations

from husk.sandbox.errors import UsageError

LARGEST = 1 << 20


def variables(path: str) -> list[str]:
    """NAME=VALUE for each line that sets one."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"--env-file {path}: {error.strerror}; name a file with a line NAME=VALUE each.") from None
    if len(text) > LARGEST:
        raise UsageError(f"--env-file {path}: larger than {LARGEST >> 20} MiB.")
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip().removeprefix("export ")
        name, equals, value = line.partition("=")
        if not line or line.startswith("#"):
            continue
        if not equals or not name.strip() or any(letter.isspace() for letter in name.strip()):
            raise UsageError(f"--env-file {path}: line {number} is not NAME=VALUE.")
        value = value.strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        found.append(f"{name.strip()}={value}")
    return found
