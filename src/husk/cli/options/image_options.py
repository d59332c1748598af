"""cli: the rows of `husk image`."""

from __future__ import annotations

from husk.cli.options import JSON, Argument, Command, Option
from husk.cli.options.store_options import STORE_DIR
from husk.cli.options.values import byte_count, positive_count

_SHARED = (STORE_DIR, JSON)
_LIMITS = (
    Option("--max-bytes", "SIZE", "refuse more when unpacked (default: 32g)", read=byte_count, default=32 << 30),
    Option("--max-entries", "N", "refuse more names (default: 2000000)", read=positive_count, default=2_000_000),
    Option("--max-ratio", "N", "refuse a higher ratio of unpacked to packed (default: 200)", read=positive_count,
           default=200),
    Option("--show-left-out", "", "list what was left out"),
)  # fmt: skip
_IMAGE = Argument("IMAGE", "its name", names_of="images")

IMAGE = Command(
    "image",
    "import, pull, export, build and name images",
    "Root file systems that boxes start from.",
    commands=(
        Command("ls", "the images", options=_SHARED),
        Command(
            "inspect",
            "one image: its layers, its size, how it wants to be started",
            options=_SHARED,
            arguments=(_IMAGE,),
        ),
        Command(
            "rm",
            "forget images; `husk store gc --delete` then frees their space",
            options=_SHARED,
            arguments=(Argument("IMAGE", "their names", count="+"),),
        ),
        Command(
            "tag",
            "give an image another name too",
            options=_SHARED,
            arguments=(_IMAGE, Argument("NAME", "the other name")),
        ),
        Command(
            "import",
            "make an image of a directory, a tar archive, `docker save`, or an OCI layout",
            options=(
                Option("--name", "NAME", "its name (default: what it calls itself, else SRC's name)"),
                Option("--ref", "REF", "which one, where SRC holds several images"),
                *_LIMITS,
                Option("--data", "", "take a root without a single program: files for `--mount IMAGE:DST:image`"),
                *_SHARED,
            ),
            arguments=(
                Argument("SRC", "tar archives plain, or packed with gzip, xz, bzip2 or zstd", attribute="source"),
            ),
        ),
        Command(
            "pull",
            "fetch an image from a registry",
            "Fetch an image from a registry, with the logins that `docker login` and `podman login` wrote.",
            options=(
                Option("--name", "NAME", "its name in the store (default: REF as written)"),
                Option("--platform", "OS/ARCH", "which one, where the registry has several (default: this machine's)"),
                Option("--insecure", "", "speak plain http to the registry; else only one on this machine may",
                       more="Whoever is on the way can then read your login and change a tag's image."),
                *_LIMITS,
                *_SHARED,
            ),
            arguments=(Argument("REF", "as docker writes it: debian:12, ghcr.io/owner/name@sha256:…"),),
        ),
        Command(
            "export",
            "write an image as a tar archive or an OCI layout",
            options=(
                Option("--format", "tar|oci", "which of the two (default: tar)", choices=("tar", "oci"), default="tar"),
                *_SHARED,
            ),
            arguments=(
                _IMAGE,
                Argument("DEST", "a new file, or - for standard output; with oci a new directory or a file named *.tar",
                         attribute="place"),
            ),
        ),
        Command(
            "build",
            "make an image by a Dockerfile or a recipe; what was done before is not done again",
            options=(
                Option("-f, --file", "FILE", "the Dockerfile (default: Dockerfile in SRC)", files=True),
                Option("-t, --name", "NAME", "its name (default: the directory's, or what the recipe says)"),
                Option("--build-arg", "NAME[=VALUE]", "the value of an ARG (default: the variable of that name)",
                       many=True),
                Option("--target", "STAGE", "build this stage instead of the last one"),
                Option("--allow-net", "RULE", "what RUNs may reach, as for husk run (default: nothing)", many=True,
                       more="A recipe says it itself."),
                Option("--net", "none|host", "host: RUNs have the host's network, all of it", choices=("none", "host"),
                       default="none"),
                Option("--no-cache", "", "do every step again"),
                Option("--no-namespaces", "", "as for husk run, for the boxes of the steps"),
                Option("--weaken", "NAME", "as for husk run, for the boxes of the steps", many=True),
                *_SHARED,
            ),
            arguments=(
                Argument("SRC", "a directory that COPY takes files from, or a recipe: a TOML file (docs/images.md)",
                         attribute="source"),
            ),
        ),
    ),
    end="Exit code 1: it cannot be done, or damage was found.",
)  # fmt: skip
