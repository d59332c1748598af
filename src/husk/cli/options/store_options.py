"""cli: the rows of `husk store`."""

from __future__ import annotations

from husk.cli.options import JSON, Argument, Command, Option
from husk.cli.options.values import duration, thread_count

STORE_DIR = Option(
    "--store", "DIR", "the store (default: $HUSK_STORE, else the user's data directory)", files=True, default=None
)
_JOBS = Option("--jobs", "N", "threads (default: one per processor)", read=thread_count, default=0)
_SHARED = (STORE_DIR, JSON)

STORE = Command(
    "store",
    "content-addressed files and images",
    "Content-addressed files, and images made of them.",
    commands=(
        Command(
            "ingest",
            "ingest a directory; files that did not change are not read again",
            options=(
                Option("--name", "IMAGE", "make it an image of this name; without, it may be collected"),
                Option("--exclude", "PATTERN", "leave out: *.log, build/, /top", many=True),
                Option("--include-secrets", "", "also .env files, private keys, credentials",
                       more="[The list](../src/husk/store/secrets.txt) of what is left out otherwise."),
                Option("--show-excluded", "", "list what was left out"),
                Option("--cross-mounts", "", "also what is mounted below DIR"),
                _JOBS,
                *_SHARED,
            ),
            arguments=(Argument("DIR", "the directory", attribute="directory"),),
        ),
        Command("ls", "the images", options=_SHARED),
        Command(
            "stat",
            "figures of an image, or of the whole store",
            options=_SHARED,
            arguments=(Argument("IMAGE", "its name", count="?"),),
        ),
        Command(
            "verify",
            "hash everything again; set aside what is damaged and name the images it touches",
            options=(
                Option("--repair-from", "DIR", "another store, or a directory with the files", files=True),
                _JOBS,
                *_SHARED,
            ),
        ),
        Command(
            "gc",
            "list what no image and no running box needs, unused layers of packages too; with --delete, remove it",
            options=(
                Option("--delete", "", "remove it"),
                Option("--unused-for", "TIME", "keep what is younger: 90m, 12h, 7d", read=duration, default=0.0),
                *_SHARED,
            ),
        ),
        Command(
            "protect",
            "set the immutable flag on blobs, where file system and privileges allow",
            options=_SHARED,
            arguments=(
                Argument(
                    "IMAGE|HASH|PATH", "all blobs of an image, one blob, or a file of the store", attribute="what"
                ),
            ),
        ),
        Command(
            "rm",
            "forget an image; `gc --delete` then frees its space",
            options=_SHARED,
            arguments=(Argument("IMAGE", "its name"),),
        ),
    ),
    end="Exit code 1: it cannot be done, or damage was found.",
)  # fmt: skip
