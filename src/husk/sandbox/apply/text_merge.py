"""sandbox: merge two versions of a text that grew from one, as `git merge-file` does. Bytes in, bytes out.

Not here: which files are merged (`both_changed`), and where the first version comes from (`originals`).
"""

from __future__ import annotations

import os

from husk.store.layout import write_file

MOST_BYTES = 4 << 20
SECONDS = 20
NO_CONFIG = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


class CannotMerge(Exception):
    """Says why, for a person."""


def is_text(data: bytes) -> bool:
    return b"\0" not in data


def merge(first: bytes | None, host: bytes, box: bytes) -> bytes:
    """Both changes in one text. `first` is what the box started from; None: it is not known."""
    if host == box or first == host:
        return box
    if not is_text(host) or not is_text(box):
        raise CannotMerge("it is no text")
    if first is None:
        raise CannotMerge("husk has no copy of what the box started from")
    if first == box:
        return host
    if max(len(first), len(host), len(box)) > MOST_BYTES:
        raise CannotMerge("it is too large to merge")
    return _merged_by_git(first, host, box)


def _merged_by_git(first: bytes, host: bytes, box: bytes) -> bytes:
    """git sees three files in a directory of its own, and no configuration: none of these may make it run a program."""
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory(prefix="husk-merge-") as place:
        for name, data in (("host", host), ("first", first), ("box", box)):
            write_file(os.path.join(place, name), data)
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "GIT_DIR": place, **NO_CONFIG}
        try:
            done = subprocess.run(
                ["git", "merge-file", "-p", "-q", "host", "first", "box"],
                cwd=place,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except FileNotFoundError:
            raise CannotMerge("git, which could merge it, is not installed") from None
        except (OSError, subprocess.TimeoutExpired):
            raise CannotMerge("git failed to merge it") from None
    if done.returncode == 0:
        return done.stdout
    # The number of places where both changed the same lines; 128 and more is a failure of git.
    raise CannotMerge("both changed the same lines" if done.returncode < 128 else "git failed to merge it")
