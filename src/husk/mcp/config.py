"""mcp: the config file, which says what clients may do. It is checked as a whole before anything is served.

A client can only ask for less than the config (`Config.lower_limits`, `Config.run_seconds`). What the
file does not set has a careful default: no mounts, no network, bounded.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from husk.api.asker_words import sentence_of
from husk.sandbox.errors import UsageError
from husk.sandbox.kept.kept_boxes import check_name
from husk.sandbox.limits.limits import Limits, shown
from husk.sandbox.policy import Mount, Publish, read_rules
from husk.sandbox.toml_reader import Table, read_toml
from husk.sandbox.weaken import check as check_weaken

VERSION = 1
TOOLS = (
    "run",
    "run_code",
    "start",
    "poll",
    "stop",
    "read_file",
    "write_file",
    "list_files",
    "copy_files",
    "changes",
    "apply_changes",
    "commit",
    "rollback",
    "fork",
    "boxes",
    "open_box",
    "close_box",
    "images",
    "import_image",
    "inspect_skill",
    "run_skill",
    "open_skill",
)
SKILL_TOOLS = {"inspect_skill", "run_skill", "open_skill"}
IMAGE_TOOLS = {"images", "import_image"}
LIMITS = {
    "time": "10m",
    "memory": "2G",
    "processes": "512",
    "disk": "4G",
    "disk-files": "100000",
    "output": "16M",
}


@dataclass
class Box:
    """What every box sees."""

    image: str = ""
    store: str = ""
    mounts: list[str] = field(default_factory=list)
    hide: list[str] = field(default_factory=list)
    deny: list[str] = field(default_factory=list)
    protect: list[str] = field(default_factory=list)
    allow: list[str] = field(default_factory=list)
    default_rules: bool = True
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = ""
    namespaces: bool = True
    weaken: list[str] = field(default_factory=list)

    @property
    def rules(self) -> dict[str, list[str]]:
        """The patterns for names below mounts, by verb."""
        return {"hide": self.hide, "deny": self.deny, "protect": self.protect, "allow": self.allow}


@dataclass
class Network:
    mode: str = "none"
    allow: list[str] = field(default_factory=list)
    deny: list[str] = field(default_factory=list)
    http: list[str] = field(default_factory=list)
    inject: list[str] = field(default_factory=list)
    publish: list[str] = field(default_factory=list)  # ports of the host that clients may take: "0", "8000-8010"

    def may_publish(self, port: int) -> bool:
        return any(first <= port <= last for first, last in map(_port_range, self.publish))


@dataclass
class Sessions:
    """How much one session may hold, and how many there may be (over HTTP; on stdio there is one)."""

    boxes: int = 4
    commits: int = 8
    programs: int = 4  # that run on between calls
    program_time: int = 8 * 3600  # seconds until one of those is ended
    images: str = ""  # clients may commit images whose names begin with this; empty: none
    apply: bool = False  # clients may write changes below cow mounts to the host
    keep: str = ""  # clients may keep boxes under names that begin with this; empty: none
    keep_main: str = ""  # the box `main` is kept under this name, whether its client asks or not
    results: int = 50
    shown: int = 20_000  # characters of each stream in an answer; the rest is in the resource
    most: int = 16
    idle: int = 3600


@dataclass
class Tools:
    allow: list[str] = field(default_factory=lambda: list(TOOLS))
    deny: list[str] = field(default_factory=list)


@dataclass
class Images:
    """`use`: patterns of image names that boxes may begin with; `folders` hold what a client may import, by name."""

    use: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


@dataclass
class Skills:
    """`folders` hold skills and their permission manifests; a client can name those and no others."""

    folders: list[str] = field(default_factory=list)
    need_permissions: bool = False
    packages: list[str] = field(default_factory=list)
    find_links: str = ""
    fetch: bool = False


@dataclass
class Config:
    box: Box = field(default_factory=Box)
    network: Network = field(default_factory=Network)
    limits: dict[str, str] = field(default_factory=lambda: dict(LIMITS))
    session: Sessions = field(default_factory=Sessions)
    tools: Tools = field(default_factory=Tools)
    images: Images = field(default_factory=Images)
    skills: Skills = field(default_factory=Skills)

    @property
    def offered_tools(self) -> set[str]:
        skills = SKILL_TOOLS if not self.skills.folders else set()
        images = set[str]()
        if not (self.images.folders and self.session.images):
            images.add("import_image")
        if not (self.images.use or self.session.images):
            images.add("images")
        return set(self.tools.allow) - set(self.tools.deny) - skills - images

    def may_use(self, image: str) -> bool:
        """May a client open a box with this image? With those it may make, too."""
        made = bool(self.session.images) and image.startswith(self.session.images)
        return made or image == self.box.image or any(fnmatchcase(image, pattern) for pattern in self.images.use)

    def check_image_name(self, image: str) -> None:
        """May a client make an image of this name?"""
        begin = self.session.images
        if not begin:
            raise UsageError("image: this server lets no client make images.")
        if not image.startswith(begin):
            raise UsageError(f"image {image!r}: this server takes names that begin with {begin!r}.")

    def check_keep(self, name: str) -> None:
        """May a client keep a box under this name?"""
        begin = self.session.keep
        if name and (not begin or not name.startswith(begin)):
            gives = f"takes names that begin with {begin!r}" if begin else "lets no client keep boxes; open it without"
            raise UsageError(f"keep {name!r}: this server {gives}.")

    def ceiling(self) -> Limits:
        return read_limits(self.limits)

    def run_seconds(self, wanted: float | None) -> float | None:
        """How long a run may take: as the client asks, at most `limits.time`."""
        most = self.ceiling()["time"]
        if wanted is not None and not 0 < wanted < 1e9:
            raise UsageError("timeout: give a number of seconds above 0.")
        return most if wanted is None else wanted if most is None else min(wanted, most)

    def check_publish(self, wish: Publish) -> None:
        """May a client take this port of the host?"""
        if wish.host != "127.0.0.1":
            raise UsageError(f"publish: {wish.host} is not this machine's loopback; leave the address out.")
        if not self.network.may_publish(wish.host_port):
            given = ", ".join(self.network.publish)
            gives = f"gives the ports {given} of the host (0: a free one)" if given else "lets no client publish ports"
            raise UsageError(f"publish: {wish.host_port}:{wish.guest_port}: this server {gives}.")

    def lower_limits(self, wanted: dict[str, str]) -> dict[str, str]:
        """The limits of a box with those a client asks for. Asking for more than the config gives is refused."""
        asked, most = read_limits(wanted), self.ceiling()
        for name in wanted:
            ours, ceiling = asked[name], most[name]
            if ceiling is not None and (ours is None or ours > ceiling):
                raise UsageError(
                    f"limits: {name} = {wanted[name]} is more than this server gives ({shown(name, ceiling)}); "
                    "ask for that or less."
                )
        return self.limits | {name: str(value) for name, value in wanted.items()}


def read_limits(texts: dict[str, str]) -> Limits:
    limits = Limits()
    for name, value in texts.items():
        limits.read(f"{name}={value}")
    return limits


def default_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(base if base.startswith("/") else os.path.expanduser("~/.config"), "husk", "mcp.toml")


def read_config(path: Path) -> Config:
    written = read_toml(path)
    written.version(VERSION)
    sections = [one.name for one in fields(Config)]
    written.only(["version", *sections])
    made = Config()
    for section in sections:
        if section == "limits":
            made.limits = LIMITS | written.amounts(section)
        else:
            _read_section(getattr(made, section), written.table(section))
    try:
        _check(made, path.resolve().parent)
    except UsageError as error:
        raise UsageError(f"{path}: {sentence_of(error, 'mcp')}") from None
    return made


def _read_section(target: Any, written: Table) -> None:
    written.only(one.name for one in fields(target))
    for name in written:
        default = getattr(target, name)
        found = written.count(name, default) if type(default) is int else written.value(name, type(default), default)
        setattr(target, name, found)


def _check(made: Config, base: Path) -> None:
    """Find every mistake before a client connects. File names are relative to the config file."""
    read_limits(made.limits)
    for option in (made.tools.allow, made.tools.deny):
        for tool in option:
            if tool not in TOOLS:
                raise UsageError(f"there is no tool {tool!r}; there are {', '.join(TOOLS)}.")
    if made.network.mode not in ("none", "host"):
        raise UsageError("network.mode is none or host; for something in between use network.allow.")
    _check_network(made.network)
    if made.box.workdir and not made.box.workdir.startswith("/"):
        raise UsageError("box.workdir must be an absolute path inside the box.")
    for name in made.box.weaken:
        check_weaken(name)
    read_rules(made.box.rules)
    if made.session.keep_main:
        check_name(made.session.keep_main)
    made.box.mounts = [_mount(text, base) for text in made.box.mounts]
    made.images.folders = [_folder("images.folders", text, base) for text in made.images.folders]
    made.skills.folders = [_folder("skills.folders", text, base) for text in made.skills.folders]
    made.skills.packages = [_folder("skills.packages", text, base) for text in made.skills.packages]
    if made.skills.find_links:
        made.skills.find_links = _folder("skills.find_links", made.skills.find_links, base)


def _check_network(network: Network) -> None:
    from husk.sandbox.network_setup import check_rules, http_services
    from husk.sandbox.policy import Policy

    asked = Policy([])
    asked.allow_http, asked.inject = network.http, network.inject
    if network.mode == "host" and network.http:
        raise UsageError("network.mode = host allows everything; leave it out, or leave out network.http.")
    if network.inject and not network.http:
        raise UsageError("network.inject adds to the requests of network.http; give that too, or leave both out.")
    http_services(asked)
    if network.mode == "host" and (network.allow or network.deny):
        raise UsageError("network.mode = host allows everything; leave it out, or leave out network.allow and .deny.")
    if network.deny and not (network.allow or network.http):
        raise UsageError("network.deny takes something away from network.allow; give that too, or leave both out.")
    check_rules("allow-net", network.allow)
    check_rules("deny-net", network.deny)
    if network.mode == "host" and network.publish:
        raise UsageError("network.publish: with network.mode = host every port is the host's; leave one of them out.")
    for text in network.publish:
        _port_range(text)


def _port_range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    if not all(one.isascii() and one.isdigit() and int(one) < 1 << 16 for one in (first, last or first)):
        raise UsageError(f"network.publish: {text!r} is no port; write 0 for a free one, 8000 or 8000-8010.")
    return int(first), int(last or first)


def _mount(text: str, base: Path) -> str:
    """Resolve all links now: boxes are made from this mount for as long as the server runs."""
    source, colon, rest = text.partition(":")
    of_host = source and not text.endswith(":image")
    return str(Mount.parse(f"{base / Path(source).expanduser()}{colon}{rest}" if of_host else text))


def _folder(what: str, text: str, base: Path) -> str:
    path = base / Path(text).expanduser()
    if not path.is_dir():
        raise UsageError(f"{what}: {path} is no directory.")
    return str(path.resolve())


SAMPLE = f"""# What agents may do with boxes of this machine: `husk mcp --config THIS_FILE`.
# A client can ask for less, never for more. Everything that is commented out shows its default.
version = {VERSION}

[box]
# image = ""                          # an image of the store; empty: the host's own programs
# mounts = []                         # as husk run --mount, from this file's directory: [".:/work:cow"]; ro, rw (the
#                                     # host is changed), cow (changes go to a copy)
# hide = []                           # names below mounts that do not exist for clients, as husk run --hide: ["*.pem"]
# deny = []                           # names that are seen, but cannot be used
# protect = []                        # names that stay as they are on the host
# allow = []                          # lifts rules, husk's own too: [".env.test"]
# default_rules = true                # husk's own rules (`husk rules` lists them)
# workdir = ""                        # where programs start; empty: /workspace, or what the image says
# env = {{ LANG = "C.UTF-8" }}
# namespaces = true
# weaken = []                         # walls to do without, as husk run --weaken

[network]
# mode = "none"                       # or "host": the host's network, all of it
# allow = []                          # what may be reached, as husk run --allow-net: ["pypi.org:443"]
# deny = []                           # but not this, as husk run --deny-net; denials win
# http = []                           # HTTP requests that pass through husk: ["GET https://api.github.com/repos/**"]
# inject = []                         # headers for them, with variables of the server's environment in braces:
#                                     # ["https://api.github.com Authorization: Bearer {{GITHUB_TOKEN}}"]
# publish = []                        # ports of 127.0.0.1 that may lead into a box: ["0", "8000-8010"]; 0: a free one

[limits]                              # of each run; "none" lifts one. As husk run --limit
{chr(10).join(f'# {name} = "{LIMITS[name]}"' for name in LIMITS)}

[session]
# boxes = 4                           # at once in one session
# commits = 8                         # states kept in one session
# programs = 4                        # that run on between calls (start, poll, stop)
# program_time = 28800                # seconds until one of those is ended
# images = ""                         # clients may commit images whose names begin with this; empty: none
# apply = false                       # clients may write changes below cow mounts to the host (apply_changes)
# keep = ""                           # clients may keep boxes under names that begin with this; empty: none
# keep_main = ""                      # keep the box `main` under this name, for `husk diff NAME` and `husk apply NAME`
# results = 50                        # results kept as resources
# shown = 20000                       # characters of each stream in an answer
# most = 16                           # sessions at once (HTTP)
# idle = 3600                         # seconds until an unused session ends (HTTP)

[tools]
# allow = [{", ".join(f'"{tool}"' for tool in TOOLS[:3])}, …]   # all of them
# deny = []

[images]
# use = []                            # images that boxes may begin with: ["python-*"]; those they made, too
# folders = []                        # archives and directories that clients may import, by name

[skills]
# folders = ["~/skills"]              # skills a client may name; none: no tools for skills
# need_permissions = false            # run none without a NAME.permissions.toml beside it
# packages = []                       # venvs and node_modules shown to them as they are
# find_links = ""                     # wheels to install missing packages from
# fetch = false                       # let pip fetch missing packages
"""

__all__ = ["SAMPLE", "TOOLS", "Config", "default_path", "read_config"]
