"""cli: turn the options of `husk run` into a policy for the box, and into what is to be reported.

On the path of every start. Not here: running the box (cmd_run.py), and how the options are spelt (cli.options).
"""

from __future__ import annotations

import os

from husk.cli.options.parse_words import Words, needs_value
from husk.cli.options.run_options import RUN
from husk.sandbox.errors import UsageError
from husk.sandbox.policy import Mount, Policy, Publish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.cli.options import Command


PROJECT_FILE = "husk.toml"


def project_file(directory: str = "") -> str:
    """The nearest one, in a directory (the working directory) or above it; "" where there is none."""
    try:
        directory = os.path.abspath(directory)
    except OSError:
        return ""
    while True:
        path = os.path.join(directory, PROJECT_FILE)
        if os.path.exists(path):
            return path
        if directory == "/":
            return ""
        directory = os.path.dirname(directory)


def has_profiles() -> bool:
    """Only then are the modules imported that read them."""
    if project_file():
        return True
    home = os.environ.get("XDG_CONFIG_HOME", "")
    if not home.startswith("/"):
        home = os.path.expanduser("~/.config")
    return os.path.exists(f"{home}/husk/config.toml")


def variable(text: str) -> tuple[str, str]:
    """What --env says: NAME=VALUE, or NAME for the caller's own."""
    name, equals, value = text.partition("=")
    if not name:
        raise UsageError(f"--env {text}: write NAME=VALUE.")
    if "\0" in text:
        raise UsageError("--env: a variable cannot hold a NUL byte.")
    if not equals:
        if name not in os.environ:
            raise UsageError(f"--env {name}: not set in your environment; write --env {name}=VALUE.")
        value = os.environ[name]
    return name, value


class RunOptions:
    """What the command line says."""

    __slots__ = (
        "detach", "events", "help", "json", "kept_by_profile", "more", "policy", "profile", "profile_file", "quiet",
        "summary", "verbose",
    )  # fmt: skip

    def __init__(self, words: list[str], command: Command = RUN) -> None:
        """`command` has the options of `husk run`, or of some of them, and perhaps more: those are in `more`."""
        self.profile = self.profile_file = ""  # which one, and the file that it was found in
        self.policy = Policy([])
        self.events = ""
        self.detach = self.json = self.kept_by_profile = self.quiet = self.summary = self.verbose = self.help = False
        self.more: dict[str, str] = {}
        path = f"husk {command.name}"
        said = Words(path, command, words)
        self.policy.argv = said.program
        for option, _, value in said.options:
            if option.attribute == "profile":
                self.profile = value or "none"
        if self.profile != "none" and (self.profile or (command is RUN and has_profiles())):
            self._take_profile()
        for option, name, value in said.options:
            if option.attribute not in (SETTERS if option.metavar else FLAGS):
                self.more[option.attribute] = value if option.metavar else name
            elif not option.metavar:
                FLAGS[option.attribute](self, name)
            elif value == "":
                raise needs_value(path, name)
            else:
                SETTERS[option.attribute](self, value)
        if not self.help and not self.policy.image and not (self.policy.argv and self.policy.argv[0]):
            raise UsageError(f"say what to run: {path} -- PROGRAM ARGS…")
        if any("\0" in word for word in self.policy.argv):
            raise UsageError("an argument cannot hold a NUL byte.")

    def _take_profile(self) -> None:
        """What the command line says comes afterwards, and so wins."""
        from husk.cli.profiles.find_profile import settings

        for file, setting in settings(self.profile, project_file()):
            self.profile_file = self.profile_file or file.path
            try:
                if setting.option.metavar:
                    SETTERS[setting.option.attribute](self, setting.value)
                else:
                    FLAGS[setting.option.attribute](self, setting.option.names[-1])
            except UsageError as error:
                raise file.wrong_at(setting.line, str(error)) from None
        self.kept_by_profile = bool(self.policy.keep)
        self._start_here()

    def _start_here(self) -> None:
        """Where the profile starts programs at the top of a mount, one that is started below it starts there."""
        try:
            here = os.getcwd()
        except OSError:
            return
        for mount in self.policy.mounts:
            top = os.path.join(mount.source, "")
            if mount.target == self.policy.workdir and here.startswith(top):
                self.policy.workdir = os.path.join(mount.target, here[len(top) :])

    def _profile(self, _: str) -> None:
        """Taken before all others."""

    def _help(self, _: str) -> None:
        self.help = True

    def _detach(self, _: str) -> None:
        self.detach = True

    def _json(self, _: str) -> None:
        self.json = True

    def _quiet(self, _: str) -> None:
        self.quiet = True

    def _summary(self, _: str) -> None:
        self.summary = True

    def _verbose(self, _: str) -> None:
        self.verbose = True

    def _no_namespaces(self, _: str) -> None:
        self.policy.namespaces = False

    def _terminal(self, name: str) -> None:
        self.policy.terminal |= "t" in name
        self.policy.interactive |= "i" in name

    def _mount(self, text: str) -> None:
        self.policy.mounts.append(Mount.parse(text))

    def _rule(self, verb: str, pattern: str) -> None:
        from husk.sandbox.rules.path_rule import PathRule

        self.policy.rules.append(PathRule(verb, pattern))

    def _hide(self, text: str) -> None:
        self._rule("hide", text)

    def _deny(self, text: str) -> None:
        self._rule("deny", text)

    def _protect(self, text: str) -> None:
        self._rule("protect", text)

    def _allow(self, text: str) -> None:
        self._rule("allow", text)

    def _no_default_rules(self, _: str) -> None:
        self.policy.default_rules = False

    def _image(self, text: str) -> None:
        self.policy.image = text

    def _keep(self, text: str) -> None:
        from husk.sandbox.kept.kept_boxes import check_name

        self.policy.keep = check_name(text)

    def _store(self, text: str) -> None:
        self.policy.store = text

    def _workdir(self, text: str) -> None:
        if not text.startswith("/") or "\0" in text:
            raise UsageError(f"--workdir {text!r}: give an absolute path inside the box.")
        self.policy.workdir = text

    def _env(self, text: str) -> None:
        name, value = variable(text)
        self.policy.env[name] = value

    def _env_file(self, text: str) -> None:
        from husk.cli.profiles.env_file import variables

        for line in variables(text):
            self._env(line)

    def _timeout(self, text: str) -> None:
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < 1e9:
            raise UsageError(f"--timeout {text}: give a number of seconds above 0.")
        self.policy.timeout = seconds

    def _net(self, text: str) -> None:
        if text not in ("none", "host"):
            raise UsageError(f"--net {text}: it is none or host; for something in between use --allow-net.")
        self.policy.net = text

    def _allow_net(self, text: str) -> None:
        self.policy.allow_net.append(text)

    def _deny_net(self, text: str) -> None:
        self.policy.deny_net.append(text)

    def _allow_http(self, text: str) -> None:
        self.policy.allow_http.append(text)

    def _inject(self, text: str) -> None:
        self.policy.inject.append(text)

    def _allow_socket(self, text: str) -> None:
        if not text.startswith("/"):
            raise UsageError(f"--allow-socket {text}: give an absolute path inside the box.")
        self.policy.allow_sockets.append(os.path.normpath(text))

    def _device(self, text: str) -> None:
        from husk.sandbox.devices.passed_devices import add_device

        add_device(self.policy, text)

    def _publish(self, text: str) -> None:
        self.policy.publish.append(Publish.parse(text))

    def _events(self, text: str) -> None:
        self.events = text

    def _limit(self, text: str) -> None:
        self.policy.limits.read(text)

    def _as(self, text: str) -> None:
        from husk.compat.emulate import emulation
        from husk.compat.runtimes import find

        self.policy.emulation = emulation(find(text))

    def _weaken(self, text: str) -> None:
        from husk.sandbox.weaken import check

        self.policy.weaken.add(check(text))


# By the attribute of their row; a test compares both with the table.
FLAGS: dict[str, Callable[[RunOptions, str], None]] = {
    "detach": RunOptions._detach,
    "help": RunOptions._help,
    "it": RunOptions._terminal,
    "json": RunOptions._json,
    "no_default_rules": RunOptions._no_default_rules,
    "no_namespaces": RunOptions._no_namespaces,
    "quiet": RunOptions._quiet,
    "summary": RunOptions._summary,
    "verbose": RunOptions._verbose,
}
SETTERS: dict[str, Callable[[RunOptions, str], None]] = {
    "allow": RunOptions._allow,
    "allow_net": RunOptions._allow_net,
    "allow_http": RunOptions._allow_http,
    "inject": RunOptions._inject,
    "allow_socket": RunOptions._allow_socket,
    "as": RunOptions._as,
    "deny": RunOptions._deny,
    "deny_net": RunOptions._deny_net,
    "device": RunOptions._device,
    "env": RunOptions._env,
    "env_file": RunOptions._env_file,
    "events": RunOptions._events,
    "hide": RunOptions._hide,
    "image": RunOptions._image,
    "keep": RunOptions._keep,
    "limit": RunOptions._limit,
    "mount": RunOptions._mount,
    "net": RunOptions._net,
    "profile": RunOptions._profile,
    "protect": RunOptions._protect,
    "publish": RunOptions._publish,
    "store": RunOptions._store,
    "timeout": RunOptions._timeout,
    "weaken": RunOptions._weaken,
    "workdir": RunOptions._workdir,
}
