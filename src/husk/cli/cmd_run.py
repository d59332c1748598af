"""cli: `husk run`. On the path of every start: what is imported here is paid for by every run."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the bare C module: `signal` itself costs an import of enum
import errno
import os
import sys

from husk.abi.text import harmless_lines
from husk.sandbox import orphans
from husk.sandbox.box import Box, Events, Full
from husk.sandbox.errors import HuskError, UsageError, host_failure
from husk.sandbox.policy import Mount, Policy, Publish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from husk.sandbox.result import Result

HELP = """usage: husk run [options] [--] PROGRAM ARGS…

Run PROGRAM in a box of its own: the host's /usr and a little of /etc, read-only beneath a layer that is thrown away,
and a private /tmp, /home and /workspace. Nothing else of the host is there.

  --image NAME            start from an image of the store instead of the host's own programs (`husk image ls`)
  --keep NAME             keep the box as NAME when it ends; if it is kept already, go on in it (docs/snapshots.md)
  --store DIR             where the store is (default HUSK_STORE, else the user's data directory)
  --mount SRC:DST[:MODE]  show the host directory SRC at DST; MODE is ro (default), rw, or cow (changes go to a copy);
                          or image: SRC is an image of the store, shown read-only
  --workdir DIR           start in DIR (default /workspace, or what the image says)
  --env NAME=VALUE        set a variable; --env NAME passes the caller's
  -t, -i, -it             give the program a terminal (-t) and your keyboard (-i) even where husk would not by itself
  --net none|host         none (default): a loopback of the box's own; host: the host's network, all of it
  --allow-net RULE        let connections out: a domain, *.domain, an address or network, each with :PORT or :FIRST-LAST
  --deny-net RULE         but not these
  --publish HOST:GUEST    a port of the host's loopback that leads to a server inside
  --timeout SECONDS       end the box after this time (exit code 124)
  --limit NAME=VALUE      end the box (exit code 124) or fail a call when it uses more; NAME is cpu, memory, processes,
                          files, file-size, disk, disk-files, output, events or time; for example memory=512M
  --weaken NAME           do without a wall the host does not give; `husk doctor` says which, and what that means
  --events FILE           write what happens as JSON lines
  --json                  print the result as one JSON object, with the guest's output inside
  --summary               say at the end what was read, changed and refused
  --no-namespaces         do without namespaces even where the host gives them
  -v, --verbose           one line per virtual call, on stderr

The exit code is the program's; 124: a limit, 125: husk failed, 126: not executable, 127: not found, 128+n: signal n.
"""


class Options:
    """What the command line says."""

    def __init__(self, args: list[str]) -> None:
        self.policy = Policy([])
        self.events = ""
        self.json = self.summary = self.verbose = self.help = False
        words = iter(args)
        for word in words:
            if word == "--":
                self.policy.argv = list(words)
            elif not word.startswith("-"):
                self.policy.argv = [word, *words]
            else:
                self._option(word, words)
        if not self.help and not self.policy.image and not (self.policy.argv and self.policy.argv[0]):
            raise UsageError("say what to run: husk run -- PROGRAM ARGS…")
        if any("\0" in word for word in self.policy.argv):
            raise UsageError("an argument cannot hold a NUL byte.")

    def _option(self, word: str, words: Iterator[str]) -> None:
        if word in TERMINAL:
            self.policy.terminal |= "t" in word
            self.policy.interactive |= "i" in word
            return
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        flag = FLAGS.get(name)
        if flag is not None and not equals:
            setattr(self, flag, True) if flag != "no_namespaces" else setattr(self.policy, "namespaces", False)
            return
        setter = SETTERS.get(name)
        if setter is None:
            raise UsageError(f"there is no option {name}{_close(name)}; `husk run --help` lists them.")
        if not equals:
            value = next(words, "")
        if value == "":
            raise UsageError(f"{name} needs a value; `husk run --help` shows which.")
        setter(self, value)

    def _mount(self, text: str) -> None:
        self.policy.mounts.append(Mount.parse(text))

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
        name, equals, value = text.partition("=")
        if not name:
            raise UsageError(f"--env {text}: write NAME=VALUE.")
        if "\0" in text:
            raise UsageError("--env: a variable cannot hold a NUL byte.")
        if not equals:
            if name not in os.environ:
                raise UsageError(f"--env {name}: not set in your environment; write --env {name}=VALUE.")
            value = os.environ[name]
        self.policy.env[name] = value

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

    def _publish(self, text: str) -> None:
        self.policy.publish.append(Publish.parse(text))

    def _events(self, text: str) -> None:
        self.events = text

    def _limit(self, text: str) -> None:
        self.policy.limits.read(text)

    def _weaken(self, text: str) -> None:
        from husk.sandbox.weaken import check

        self.policy.weaken.add(check(text))


FLAGS = {
    "--json": "json",
    "--summary": "summary",
    "-v": "verbose",
    "--verbose": "verbose",
    "-h": "help",
    "--help": "help",
    "--no-namespaces": "no_namespaces",
}
TERMINAL = ("-i", "-t", "-it", "-ti")
SETTERS: dict[str, Callable[[Options, str], None]] = {
    "--mount": Options._mount,
    "--image": Options._image,
    "--keep": Options._keep,
    "--store": Options._store,
    "--workdir": Options._workdir,
    "--env": Options._env,
    "--net": Options._net,
    "--allow-net": Options._allow_net,
    "--deny-net": Options._deny_net,
    "--publish": Options._publish,
    "--timeout": Options._timeout,
    "--events": Options._events,
    "--limit": Options._limit,
    "--weaken": Options._weaken,
}


def _close(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, [*FLAGS, *SETTERS], 1)
    return f"; did you mean {near[0]}" if near else ""


def main(args: list[str]) -> int:
    try:
        options = Options(args)
        if options.help:
            print(HELP, end="")
            return 0
        return _run(options)
    except HuskError as error:
        print(f"husk: {harmless_lines(str(error))}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"husk: {host_failure(error)}", file=sys.stderr)
        return HuskError.exit_code


def _run(options: Options) -> int:
    tell, trace = _listeners(options)
    events = Events(tell, trace, collect=options.summary)
    if options.json or options.policy.limits["output"]:
        from husk.cli.capture import run_captured

        result = run_captured(options.policy, events, keep=options.json, run=_with_signals)
    else:
        result = _with_signals(Box(options.policy, events))
    for fault in result.faults:
        print(f"husk: a fault of husk's own (the guest saw EIO):\n{fault}", file=sys.stderr)
    for limit in result.limits:
        if not options.summary:
            print(f"husk: {limit}{'; the box was ended' if limit.ended else ''}.", file=sys.stderr)
    if options.json:
        import json

        print(json.dumps(result.as_dict(), indent=2))
    if options.summary:
        from husk.cli.summary import show

        show(result)
    return result.exit_code


def _with_signals(box: Box) -> Result:
    """What a key sends is passed on to the guest, which has a session of its own; SIGTERM and SIGHUP end the box."""

    def end(number: int, _frame: object) -> None:
        box.end(number)

    def pass_on(number: int, _frame: object) -> None:
        box.signal(number)

    box.wakes, told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    _signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    for number in (_signal.SIGTERM, _signal.SIGHUP):
        _signal.signal(number, end)
    for number in (_signal.SIGINT, _signal.SIGQUIT, _signal.SIGCONT):
        _signal.signal(number, pass_on)
    if any(map(os.isatty, box.stdio)):
        _signal.signal(_signal.SIGTSTP, pass_on)
        _signal.signal(_signal.SIGWINCH, lambda *_: box.resize())
    orphans.adopt()
    return box.run()


def _listeners(options: Options) -> tuple[Callable[[dict[str, object]], None] | None, Callable[[str], None] | None]:
    tell = trace = None
    if options.events:
        import json

        try:
            log = open(options.events, "w", buffering=1, encoding="utf-8")  # noqa: SIM115 — open for the whole run
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EIO):
                raise  # no mistake of the caller's
            raise UsageError(f"--events {options.events}: {error.strerror}.") from None

        room = options.policy.limits["events"]

        def tell(event: dict[str, object]) -> None:
            nonlocal room
            line = json.dumps(event) + "\n"
            if room is not None:
                if len(line) > room:
                    room = 0  # no later, shorter one slips in: what is there is a beginning, without holes
                    raise Full
                room -= len(line)
            log.write(line)

    if options.verbose:

        def trace(line: str) -> None:
            sys.stderr.write(f"husk: {line}\n")

    return tell, trace
