"""cli: the rows of the commands about compatibility: `husk runtimes` and those beside it."""

from __future__ import annotations

from husk.cli.options import CLUSTER, JSON, Argument, Command, Option
from husk.cli.options.run_options import BOX, EXIT_CODES, REPORTS
from husk.cli.options.values import run_count, time_limit
from husk.sandbox.policy import Mount

_RUNTIME = "its name, the beginning of its name, or a file"

TRACE = Command(
    "trace",
    "run a program in a box and say what it asks of Linux",
    "Run PROGRAM in a box, count every system call it and its children make, native ones too, and say at the end which:"
    " by call, with files, addresses, programs and failures in the reports. It runs slower, and otherwise as with"
    " `husk run`, whose other options it takes.",
    options=(
        Option("-o, --output", "FILE", "write the report to FILE: a log with a line for each call; with --json or"
               " --html, or a FILE that ends so, in that form", group=REPORTS, files=True),
        Option("--json", "", "write the census as one JSON object; without -o to standard output, and what the program"
               " writes there goes to standard error", group=REPORTS,
               more="[The format](formats/trace.md). Errors are an object too."),
        Option("--html", "", "write a page to look at; where to as with --json", group=REPORTS),
        Option("--log", "FILE", "write the log there, whatever -o is for", group=REPORTS, files=True),
        Option("--log-lines", "N", "the most lines of a log (default: 200000); what follows is counted",
               group=REPORTS),
        Option("-q, --quiet", "", "no table at the end", group=REPORTS),
        *BOX,
    ),
    program="PROGRAM ARGS…",
    program_first=True,
    end="Results of native calls are not seen: the host runs them. " + EXIT_CODES,
)  # fmt: skip
RUNTIMES = Command(
    "runtimes",
    "what gVisor, Docker, Linux 6.1 and others offer, call by call",
    "What other runtimes offer of Linux, call by call: full, partial, missing or unknown, with errno and source.",
    commands=(
        Command("ls", "the runtimes husk knows", options=(JSON,)),
        Command(
            "show",
            "what a runtime offers, or what it does with some calls",
            options=(
                Option("--support", "full|partial|missing|unknown", "show only the calls with this support",
                       choices=("full", "partial", "missing", "unknown")),
                Option("--toml", "", "print it as a runtime file"),
                JSON,
            ),
            arguments=(
                Argument("NAME", _RUNTIME),
                Argument("CALL", "only these calls, with their notes", count="*", attribute="calls"),
            ),
        ),
        Command(
            "diff",
            "which calls two runtimes treat differently",
            options=(JSON,),
            arguments=(Argument("A", _RUNTIME), Argument("B", _RUNTIME)),
            end="Exit code 0: no difference; 1: there are some.",
        ),
        Command(
            "import",
            "make a runtime file from a seccomp profile of Docker, Kubernetes or an OCI runtime",
            options=(
                Option("--name", "NAME", "what the runtime is called (default: the name of FILE)"),
                Option("--out", "FILE", "write it there instead of printing it", files=True),
                Option("--skip-unknown", "", "leave out names that no Linux has, instead of refusing the profile"),
                JSON,
            ),
            arguments=(Argument("FILE", "the profile, or the config.json that holds it", attribute="file"),),
            end="Rules by capability apply as to a container with the default capabilities, on x86-64.",
        ),
        Command(
            "validate",
            "check runtime files",
            options=(JSON,),
            arguments=(Argument("FILE", "a runtime file", count="+", attribute="files"),),
        ),
    ),
    end="docs/compatibility.md tells more; docs/formats/runtime.md describes the file.",
)  # fmt: skip
PROBE = Command(
    "probe",
    "measure what the Linux you stand in, or a sandbox, really does",
    "Measure what the Linux husk stands in, or a sandbox, really does: some hundreds of small checks that look at the"
    " effect of a call, not at what it returns. Prints the checks that do not find what Linux does.",
    options=(
        Option("--in", "PREFIX", "run the checks under this command: 'runsc do', 'bwrap …', 'proot …', 'husk run'",
               attribute="prefix",
               more="The words are split as by a shell. The program with the checks has no libraries. For `husk run`,"
               " `bwrap`, `docker` and `podman` husk adds the option that shows it inside; others must see its path."),
        Option("--out", "FILE", "write what was measured as a runtime file, for `husk runtimes` and --diff",
               files=True),
        Option("--only", "CALL", "only the checks of this call, or of this path; may be given several times",
               many=True),
        Option("--list", "", "list the checks and end"),
        Option("--diff", "", "compare two runtimes: measured files, or names that `husk runtimes ls` lists"),
        JSON,
    ),
    arguments=(Argument("NAME", "with --diff: the two runtimes", count="*", attribute="names"),),
    end="Exit code 0, whatever was found; with --diff 1 if there are differences.",
)  # fmt: skip

PLAN = Command(
    "plan",
    "what a runtime should implement next",
    "Order what a runtime lacks by how many programs of a corpus each step makes run.",
    options=(
        Option("--for", "RUNTIME", _RUNTIME, attribute="runtime"),
        Option("--weight", "NAME=NUMBER", "how much a program counts (default: 1)", many=True),
        Option("--markdown", "", "print tables for a page"),
        JSON,
    ),
    arguments=(
        Argument("CORPUS", "traces (`husk trace --json`), files of `husk need --out`, directories of them, or skills"
                 " with test cases, which are then run", count="+"),
    ),
    end="A file's name up to its first dot is the program's name.",
)  # fmt: skip
NEED = Command(
    "need",
    "which of its system calls a program really needs",
    "Run PROGRAM, see which calls it makes, then run it again for each of them, once where that call fails with ENOSYS"
    " and once where it succeeds and does nothing, and say whether it still does its work. Each run has a box of its"
    " own, with the options of `husk run`.",
    options=(
        Option("--test", "CHECK", "a shell command, run in the same box after PROGRAM, that ends with 0 if the work is"
               " done; it reads PROGRAM's output and finds its exit code in $STATUS (default: the same output and exit"
               " code as at first)", group=REPORTS),
        Option("--out", "FILE", "write every attempt there as it ends; the same command goes on from it",
               group=REPORTS, files=True),
        Option("--jobs", "N", "so many attempts at a time (default: one for each processor)", group=REPORTS),
        Option("--cluster", "ADDRESS", CLUSTER.help, group=REPORTS, more=CLUSTER.more),
        Option("--json", "", "print the needs as one JSON object; errors too", group=REPORTS),
        *BOX,
    ),
    program="PROGRAM ARGS…",
    program_first=True,
    end="With --timeout an attempt takes no longer; else ten times as long as the first run.",
)  # fmt: skip
SECCOMP = Command(
    "seccomp",
    "a seccomp profile from traces, for Docker, systemd and others",
    "Seccomp profiles for the runtimes people already have, made from what programs were seen to do.",
    commands=(
        Command(
            "from",
            "write the least profile that covers what was seen in traces",
            "Write the least profile that covers what was seen in one or several traces, and the calls that a C library"
            " or a container runtime may need besides. All other calls fail with ENOSYS.",
            options=(
                Option("--format", "docker|oci|systemd|husk", "for whom: Docker and Kubernetes, an OCI config.json, a"
                       " systemd unit, or husk run --as", choices=("docker", "oci", "systemd", "husk"),
                       default="docker"),
                Option("--out", "FILE", "write it there instead of printing it", files=True),
                JSON,
            ),
            arguments=(
                Argument("TRACE", "a file that `husk trace --json` wrote", count="+", attribute="traces"),
            ),
        ),
    ),
)  # fmt: skip
COMPARE = Command(
    "compare",
    "run a command in two places, and name the first thing that differs",
    "Run a command in two places, each time in an empty directory of its own, and name the first thing that differs:"
    " output, errors, exit status, or the files it wrote. What varies between native runs is not counted.",
    options=(
        Option("--under", "PREFIX", "a place: 'husk run', 'bwrap …', 'proot …', 'husk run --as gvisor-2024', or '' for"
               " the host; with one, it is compared with the host", many=True,
               more="The words are split as by a shell. `{}` stands for the directory the command works in; for"
               " `husk run`, `bwrap` and `proot` husk adds the options that show it inside."),
        Option("--repeat", "N", "native runs made first, to see what varies by itself (default: 3; 0: none)",
               read=run_count, default=3),
        Option("--timeout", "SECONDS", "end a run after this time (default: 60)", read=time_limit, default=60.0),
        Option("--trace", "FILE", "compare two traces instead, as `husk trace --json` wrote them", many=True,
               files=True),
        JSON,
    ),
    program="CMD [ARG…]",
    end="Exit code 0: the same; 1: there are differences; 2: the command line makes no sense, or a run cannot start.",
)  # fmt: skip
CHECK = Command(
    "check",
    "will a program run in gVisor, under Docker's profile, in husk?",
    "Say what a program, a script, a directory, a skill or an image can ask of Linux, without running it, and whether a"
    " runtime offers that: runs, runs with fallback, breaks, or unknown. After `--` a command is run in a box, plainly"
    " and with each runtime's surface, and the ends are compared.",
    options=(
        Option("--against", "RUNTIME", "hold it against this runtime (default: husk); may be given several times, and"
               " `all` is every one that `husk runtimes ls` lists", many=True),
        Option("--trace", "FILE", "judge by what a trace saw (`husk trace --json`), not by what the code could do",
               files=True),
        JSON,
        Option("--sarif", "", "print SARIF 2.1.0, for code hosts"),
        Option("--markdown", "", "print a matrix with evidence, as Markdown"),
        Option("--html", "", "print a matrix with evidence, as a page"),
        Option("--out", "FILE", "write to FILE instead", files=True),
        Option("--store", "DIR", "where images are looked up", files=True),
        Option("--mount", "SRC:DST[:MODE]", "for the command after `--`, as for husk run", many=True, files=True,
               read=Mount.parse),
        Option("--timeout", "SECONDS", "end each run of the command after this time (default: 60)",
               read=time_limit, default=None),
        Option("--no-namespaces", "", "for the command after `--`, as for husk run"),
    ),
    arguments=(Argument("WHAT", "a program, a script, a directory, a skill, a folder of skills or an image", count="*",
                        attribute="what"),),
    program="CMD ARGS…",
    end="Exit code 0: it runs, perhaps with fallback; 1: it breaks in some runtime; 3: in some it is unknown; 2: a"
    " mistake in the words.",
)  # fmt: skip
