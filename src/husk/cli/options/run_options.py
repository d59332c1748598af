"""cli: the rows of `husk run` and `husk shell`. On the path of every start."""

from __future__ import annotations

from husk.cli.options import Command, Option

FILES, TERMINAL, NETWORK = "files and programs", "terminal", "network"
LIMITS, WALLS, REPORTS = "limits", "walls", "reports"

BOX = (
    Option("--image", "NAME", "start from an image of the store instead of the host's own programs (`husk image ls`)",
           group=FILES, names_of="images"),
    Option("--profile", "NAME", "take the options of this profile first, from husk.toml or your own file; none: of no"
           " profile", group=FILES, names_of="profiles",
           more="Without it the profile `default` is taken, if there is one: [profiles](profiles.md)."),
    Option("--keep", "NAME", "keep the box as NAME when it ends; if it is kept already, go on in it",
           group=FILES, names_of="boxes",
           more="`husk diff`, `apply`, `commit`, `fork` and `drop` work on it: [how](snapshots.md)."),
    Option("--store", "DIR", "where the store is (default: $HUSK_STORE, else the user's data directory)",
           group=FILES, files=True),
    Option("--mount", "SRC:DST[:MODE]", "show the host directory SRC at DST; MODE is ro (default), rw, or cow (changes"
           " go to a copy); or image: SRC is an image of the store, shown read-only",
           group=FILES, many=True, files=True,
           more="A single file can be `ro` or `cow`. `rw` changes the host."),
    Option("--hide", "PATTERN", "below mounts, names that match do not exist",
           group=FILES, many=True, more="[Patterns, and the rules every mount has](mounts.md#rules)."),
    Option("--deny", "PATTERN", "below mounts, names that match are seen but cannot be used (EACCES)", group=FILES,
           many=True),
    Option("--protect", "PATTERN", "below mounts, names that match stay as they are on the host", group=FILES,
           many=True),
    Option("--allow", "PATTERN", "below mounts, lift the rules for names that match, husk's own too (`husk rules`)",
           group=FILES, many=True),
    Option("--no-default-rules", "", "lift all of husk's own rules for mounts", group=FILES),
    Option("--device", "NAME", "give the box a device or a server of the desktop: dri, kvm, nvidia, wayland, pulse,"
           " pipewire, or a file of the first three (default: none)", group=FILES, many=True, names_of="devices",
           more="[What each costs in safety](devices.md)."),
    Option("--workdir", "DIR", "start in DIR, an absolute path in the box (default: /workspace, or what the image"
           " says)", group=FILES, files=True),
    Option("--env", "NAME=VALUE", "set a variable; --env NAME passes the caller's", group=FILES, many=True,
           more="From the caller's environment only language and terminal (`LANG`, `LC_ALL`, `LC_CTYPE`, `TERM`,"
           " `COLORTERM`, `TZ`) go in by themselves."),
    Option("--env-file", "FILE", "set the variables of a file: a line NAME=VALUE for each", group=FILES, many=True,
           files=True, more="Lines that are empty or begin with `#` are skipped; quotes around a whole value are taken"
           " off."),
    Option("-t, -i, -it", "", "give the program a terminal (-t) and your keyboard (-i) even where husk would not by"
           " itself", group=TERMINAL,
           more="By itself husk does when it is started on a terminal and outside a pipeline."),
    Option("--net", "none|host", "none (default): a loopback of the box's own; host: the host's network, all of it",
           group=NETWORK, choices=("none", "host"), default="none"),
    Option("--allow-net", "RULE", "let connections out: a domain, *.domain, an address or network, each with :PORT or"
           " :FIRST-LAST", group=NETWORK, many=True, more="[The rules](network.md)."),
    Option("--deny-net", "RULE", "but not these", group=NETWORK, many=True),
    Option("--allow-http", "RULE", "let HTTP requests out through husk: 'GET,POST https://HOST/PATH/**'; inside, the"
           " host is reached by http://HOST", group=NETWORK, many=True, more="[The rules](network.md#http-requests)."),
    Option("--inject", "'URL HEADER: TEXT'", "add a header to these requests; {NAME} in TEXT is a variable of yours,"
           " which the program never sees", group=NETWORK, many=True,
           more="Also `{file:PATH}` and `{base64:NAME}`: [credentials](network.md#credentials)."),
    Option("--allow-socket", "PATH", "let programs reach this Unix socket of the host, below a ro or cow mount; PATH is"
           " its name in the box", group=NETWORK, many=True, more="Below `rw` mounts all can be reached."),
    Option("--publish", "HOST:GUEST", "a port of the host's loopback that leads to a server inside", group=NETWORK,
           many=True),
    Option("--timeout", "SECONDS", "end the box after this time (exit code 124)", group=LIMITS),
    Option("--limit", "NAME=VALUE", "end the box (exit code 124) or fail a call when it uses more; NAME is cpu, memory,"
           " processes, files, file-size, disk, disk-files, output, events or time; for example memory=512M",
           group=LIMITS, many=True, names_of="limits",
           more="Also `cpu=10s`, `disk-files=100k`, or `none` to lift a default:"
           " [what each does](design/008-limits.md)."),
    Option("--weaken", "NAME", "do without a wall the host does not give; `husk doctor` says which, and what that"
           " means", group=WALLS, many=True, more="NAME is `namespaces`, `signals` or `user`:"
           " [what that means](security.md#the-walls)."),
    Option("--no-namespaces", "", "do without namespaces even where the host gives them", group=WALLS),
    Option("--as", "RUNTIME", "give the program no more of Linux than this runtime has; `husk runtimes ls` lists them",
           group=WALLS, names_of="runtimes",
           more="Calls that the runtime lacks fail with its errnos, and are reported as refusals:"
           " [what is emulated](compatibility.md#emulate)."),
)  # fmt: skip
_EVENTS = Option("--events", "FILE", "write what happens as JSON lines", group=REPORTS, files=True,
                 more="The kinds and their fields: [the format](formats/events.md).")  # fmt: skip
_SUMMARY = Option("--summary", "", "say at the end what was read, changed and refused", group=REPORTS)
_QUIET = Option("-q, --quiet", "", "say nothing of refusals when the program fails", group=REPORTS,
                more="Without it one line names the refusal that most likely matters, and what allows it.")  # fmt: skip
_VERBOSE = Option("-v, --verbose", "", "one line per virtual call, on stderr", group=REPORTS)
_JSON = Option(
    "--json", "", "print the result as one JSON object, with the guest's output inside; errors too", group=REPORTS,
    more="At most 16 MiB of each stream. The files that were read are listed only together with `--summary`,"
    " `--events` or `-v`.",
)  # fmt: skip

EXIT_CODES = (
    "The exit code is the program's; 2: the command line makes no sense, 124: a limit, 125: husk failed,"
    " 126: not executable, 127: not found, 128+n: signal n."
)

_DETACH = Option("-d, --detach", "", "run in the background, and print the box's name", group=REPORTS,
                 more="`husk logs`, `exec`, `attach` and `stop` work on it: [in the background](background.md).")

RUN = Command(
    "run",
    "run a program in a box",
    "Run PROGRAM in a box of its own: the host's /usr and a little of /etc, read-only beneath a layer that is thrown"
    " away, and a private /tmp, /home and /workspace. Nothing else of the host is there.",
    options=(*BOX, _DETACH, _EVENTS, _JSON, _QUIET, _SUMMARY, _VERBOSE),
    program="PROGRAM ARGS…",
    program_first=True,
    end=EXIT_CODES,
)
SHELL = Command(
    "shell",
    "a shell in a box, on this terminal",
    "A shell (bash, else sh) in a box of its own, on this terminal. Its options are those of `husk run`, without"
    " --json: a terminal is for people. exit or ^D ends the shell, and the box with it.",
    options=(*BOX, _EVENTS, _SUMMARY, _VERBOSE),
    options_of="run",
    end=EXIT_CODES,
)
