"""sandbox: what a box may see and use, as plain data."""

from __future__ import annotations

import os

from husk.native.real_paths import real_path
from husk.sandbox.errors import UsageError
from husk.sandbox.limits.limits import Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from husk.kernel.emulation import Emulation
    from husk.sandbox.devices.passed_devices import Passed
    from husk.sandbox.image_source import ImageSource
    from husk.sandbox.rules.path_rule import PathRule

MODES = ("ro", "rw", "cow", "image")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
USER, HOME, WORKDIR = "user", "/home/user", "/workspace"


class Mount:
    """A host directory or file shown at a guest path: `ro`, `rw`, or `cow` (changes go to a copy). With `image` the
    source is the name of an image of the store, shown read-only.

    Links in the source are followed when it is named, here, and never again. `ruled`: the rules for names hold below
    it, as for everything of a person's. `passing`: it is gone after this run; a kept box does not remember it."""

    __slots__ = ("mode", "passing", "ruled", "source", "target")

    def __init__(
        self, source: str, target: str, mode: str = "ro", *, ruled: bool = True, passing: bool = False
    ) -> None:
        self.source = source if mode == "image" else real_path(source)
        self.target, self.mode, self.ruled, self.passing = target, mode, ruled, passing

    @classmethod
    def parse(cls, text: str) -> Mount:
        """SRC:DST[:ro|rw|cow], or IMAGE:DST:image"""
        parts = text.split(":")
        mode = parts.pop() if len(parts) > 2 and parts[-1] in MODES else "ro"
        if mode == "image" and len(parts) > 2:
            parts = [":".join(parts[:-1]), parts[-1]]  # names of images may hold colons
        if len(parts) > 2:
            raise UsageError("the mode is one of ro, rw, cow, image; write SRC:DST:ro.", option="mount", value=text)
        if len(parts) != 2 or not all(parts):
            raise UsageError(
                "write SRC:DST or SRC:DST:MODE with MODE one of ro, rw, cow, image.", option="mount", value=text
            )
        if "\0" in text:
            raise UsageError("a path cannot hold a NUL byte.", option="mount")
        source = parts[0] if mode == "image" else os.path.expanduser(parts[0])
        target = parts[1]
        if not target.startswith("/"):
            raise UsageError(
                f"the place inside the box must be absolute; write {parts[0]}:/{target}.", option="mount", value=text
            )
        target = "/" + os.path.normpath(target).lstrip("/")
        if target == "/":
            raise UsageError(
                "the root of the box cannot be mounted over; choose a directory below it.", option="mount", value=text
            )
        mount = cls(source, target, mode)
        mount.check()
        return mount

    @classmethod
    def parse_again(cls, text: str) -> Mount:
        """Parse what `str` gave for an earlier mount. No symbolic link may have come into its path since then."""
        mount = cls.parse(text)
        if str(mount) != text:
            raise UsageError(
                f"it leads to {mount.source} by now; remove the symbolic link in it.", option="mount", value=text
            )
        return mount

    def __str__(self) -> str:
        return f"{self.source}:{self.target}:{self.mode}"

    def __repr__(self) -> str:
        return f"Mount({self.source!r}, {self.target!r}, {self.mode!r})"

    def check(self) -> None:
        """UsageError: there is no such source, or the caller may not read it."""
        if self.mode == "image":
            return  # the policy says which store; it is looked up when the box is built
        if not os.path.exists(self.source):
            raise UsageError("there is no such file or directory on the host.", option="mount", value=self.source)
        wanted = os.R_OK | (os.X_OK if os.path.isdir(self.source) else 0)
        if not os.access(self.source, wanted):
            raise UsageError("you may not read it; check its permissions.", option="mount", value=self.source)


def read_rules(given: Mapping[str, Iterable[str]]) -> list[PathRule]:
    """Rules from patterns by verb."""
    if not any(given.values()):
        return []  # most boxes have none: nothing is imported
    from husk.sandbox.rules.path_rule import PathRule

    for verb, patterns in given.items():
        if isinstance(patterns, str):
            raise UsageError(f"{verb}: give a list of patterns, as [{patterns!r}].")
    return [PathRule(verb, pattern) for verb, patterns in given.items() for pattern in patterns]


class Publish:
    """A port of the host, by default of its loopback only, that leads to a port of the box."""

    __slots__ = ("guest_port", "host", "host_port")

    def __init__(self, host: str, host_port: int, guest_port: int) -> None:
        self.host, self.host_port, self.guest_port = host, host_port, guest_port

    @classmethod
    def parse(cls, text: str) -> Publish:
        """[ADDRESS:]HOST:GUEST"""
        address, _, ports = text.rpartition("]:") if text.startswith("[") else ("", "", text)
        parts = ports.split(":")
        if address:
            address = address[1:]
        elif len(parts) == 3:
            address = parts.pop(0)
        numbers = [int(part) if part.isascii() and part.isdigit() and len(part) < 6 else -1 for part in parts]
        if len(numbers) != 2 or not (0 <= numbers[0] < 65536 and 0 < numbers[1] < 65536):
            raise UsageError(
                "write HOST:GUEST, two ports like 8080:8000, or ADDRESS:HOST:GUEST.", option="publish", value=text
            )
        return cls(address or "127.0.0.1", *numbers)


class Trace:
    """Every call of the guests is written down. `lines` is the most that the log of a run may have; 0: no log."""

    __slots__ = ("lines",)

    def __init__(self, lines: int = 0) -> None:
        self.lines = lines


# What a box that is ready can still be told: none of it has to do with its walls, its image or its limits.
TOLD_LATE = frozenset(
    (
        "allow_sockets",
        "argv",
        "default_rules",
        "env",
        "executable",
        "limits",  # unless some were asked for
        "mounts",
        "rules",
        "store",
        "timeout",
        "workdir",
    )
)


class Policy:
    """Everything `husk run` was told. Plain attributes, checked when the box is built."""

    __slots__ = (
        "allow_http",
        "allow_net",
        "allow_sockets",
        "argv",
        "default_rules",
        "deny_net",
        "devices",
        "emulation",
        "env",
        "executable",
        "home",
        "image",
        "inject",
        "interactive",
        "keep",
        "limits",
        "lookup",
        "mounts",
        "namespaces",
        "net",
        "over_files",
        "programs",
        "publish",
        "rules",
        "store",
        "terminal",
        "timeout",
        "trace",
        "user",
        "weaken",
        "workdir",
    )

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv
        self.executable = ""  # the program, where it is not argv[0]
        self.image = ""  # a name in the store; empty: the default image, made of the host's own programs
        self.store = ""  # where that is; empty: the user's own
        self.keep = ""  # the name of a box to continue in, and to keep; empty: nothing stays
        self.mounts: list[Mount] = []
        self.devices: list[Passed] = []  # of the host (devices.passed_devices)
        self.emulation: Emulation | None = None  # another runtime's surface to give the guest; None: husk's own
        self.rules: list[PathRule] = []  # for names below mounts, beside husk's own
        self.default_rules = True  # husk's own (rules.default_rules)
        self.env: dict[str, str] = {}
        self.workdir = ""  # empty: where the image wants to start, or /workspace
        self.home, self.user = HOME, USER
        self.timeout: float | None = None
        self.limits = Limits()
        self.weaken: set[str] = set()  # walls to do without if the host does not give them
        self.namespaces = True  # use them where the host gives them
        # The guest may change the box's own files regardless of their owner, also where its uid is not 0.
        self.over_files = False
        self.interactive = False  # read the keyboard even where the output goes elsewhere
        self.terminal = False  # a terminal even where the output is none
        self.net = "none"  # the box's own loopback and what the rules add; or "host"
        self.allow_net: list[str] = []  # rules as husk.kernel.net.network_rules reads them
        self.deny_net: list[str] = []
        self.allow_http: list[str] = []  # rules as husk.kernel.http.http_rules reads them
        self.inject: list[str] = []  # headers for their hosts: templates, which name secrets and do not hold them
        self.allow_sockets: list[str] = []  # of the host below `ro` and `cow` mounts, as the box calls them
        self.publish: list[Publish] = []
        self.trace: Trace | None = None  # None: calls are not written down
        self.programs: list[str] | None = None  # what may be started (kernel.exec.allowed_programs); None: anything
        self.lookup: Callable[[str], list[str]] | None = None  # how names are found; None: as the host does

    @property
    def outside(self) -> bool:
        """Does the policy let network traffic in or out?"""
        return self.net == "host" or bool(self.allow_net or self.allow_http or self.publish)

    def check_net(self) -> None:
        if self.deny_net and not (self.allow_net or self.allow_http):
            raise UsageError("--deny-net takes something away from --allow-net; give that too, or leave both out.")
        if self.inject and not self.allow_http:
            raise UsageError("--inject adds to the requests of --allow-http; give that too, or leave both out.")
        if self.net == "host" and self.allow_net:
            raise UsageError("--net host allows everything; leave it out, or leave out --allow-net.")
        if self.net == "host" and self.allow_http:
            raise UsageError("--net host allows everything; leave it out, or leave out --allow-http.")

    def fits_usual_box(self) -> bool:
        """Will the box of a policy that asks for nothing do, once it is told the rest?"""
        if self.limits.asked:
            return False
        usual = Policy([])
        return all(getattr(self, name) == getattr(usual, name) for name in self.__slots__ if name not in TOLD_LATE)

    def again(self) -> Policy:
        """A copy for another run, which may change it."""
        other = Policy(self.argv)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other.env = dict(self.env)
        return other

    def adopt_program(self, image: ImageSource) -> None:
        """Take the program from the image, unless the caller named one."""
        self.argv = [*image.config.entrypoint, *(self.argv or image.config.cmd)]
        if not self.argv:
            raise UsageError(f"the image {image.name!r} names no program to start; say which: husk run … -- PROGRAM.")

    def adopt(self, image: ImageSource) -> None:
        """Take environment, working directory and user from the image, unless the caller gave them."""
        config = image.config
        self.env = config.env | self.env
        if image.on_host:
            self.workdir = self.workdir or config.workdir
            return
        self.workdir = self.workdir or config.workdir or "/"
        self.home, self.user = image.home, image.user

    def environment(self) -> dict[str, str]:
        """The guest's environment: of the caller's only language and terminal, then the variables asked for."""
        env = {"PATH": DEFAULT_PATH, "HOME": self.home, "USER": self.user, "LOGNAME": self.user, "SHELL": "/bin/sh"}
        env["LANG"] = os.environ.get("LANG", "C.UTF-8")
        for name in ("TERM", "COLORTERM", "LC_ALL", "LC_CTYPE", "TZ"):
            if name in os.environ:
                env[name] = os.environ[name]
        return env | self.env
