"""cli: the rows of `husk conform` and its sub-commands."""

from __future__ import annotations

from husk.cli.options import CLUSTER, JSON, Argument, Command, Option
from husk.cli.options.values import positive_count, run_count, thread_count, time_limit

_FORMATS = "[The format](formats/results.md)."

RUN_SUITES = Command(
    "run",
    "run suites somewhere, judge them against the native baseline, and remember the results",
    options=(
        Option("--under", "husk|native|PREFIX", "where the programs run: in husk (default), natively, or behind the"
               " words of another runtime, as 'bwrap --dev-bind / /'", default="husk"),
        Option("--setting", "walled|bare", "for husk: with namespaces (default), or without",
               choices=("walled", "bare"), default="walled"),
        Option("--image", "NAME", "for husk: in this image, whose user the programs are: root, if it names none"),
        Option("--filter", "PATTERN", "only cases whose FILE/CASE fits the shell pattern; may be given several times",
               many=True),
        Option("--alone", "", "each case in a process of its own, where the suite's kind can do that"),
        Option("--jobs", "N", "units at once (default: the number of processors)", read=thread_count, default=0),
        Option("--timeout", "S", "seconds for a unit, instead of the suite's", read=time_limit, default=0.0),
        Option("--user", "USER", "run the programs as this user; husk run as root only"),
        Option("--repeat", "N", "runs of the native baseline, to find flaky cases (default: 2)", read=run_count,
               default=2),
        Option("--baseline", "FILE", "a results.json of a native run to judge by, instead of running natively first",
               files=True),
        Option("--fresh-baseline", "", "run natively anew, and forget what is remembered of earlier native runs"),
        Option("--expected", "FILE", "a list of expected failures (default: expected.toml beside the suite file); may"
               " be given several times", files=True, many=True),
        Option("--resume", "", "go on where the last run of these suites was stopped"),
        CLUSTER,
        Option("--out", "FILE", "write results.json there too", files=True, more=_FORMATS),
        Option("-q, --quiet", "", "no progress, only the result"),
        JSON,
    ),
    arguments=(Argument("SUITE", "a suite file, a directory that holds suite.toml, or one of GoogleTest programs",
                        count="+", attribute="suites"),),
    end="Exit code 0: every miss is expected; 1: some is not.",
)  # fmt: skip
SHOW = Command(
    "show",
    "the score of a results.json: by family, and what was missed",
    options=(JSON,),
    arguments=(Argument("RESULTS", "a results.json", attribute="results"),),
)
BUILD_SUITE = Command(
    "build",
    "build a suite's programs from a checkout, with the system's compiler and ninja",
    "Build gVisor's system call tests from a checkout, with the system's compiler and ninja and without Bazel, and"
    " write the suite file. Run it again to go on where it was stopped.",
    options=(
        Option("--source", "DIR", "a checkout of gVisor", files=True),
        Option("--out", "DIR", "where the programs and suite.toml go", files=True),
        Option("--abseil", "DIR", "a checkout of Abseil (default: the system's package)", files=True),
        Option("--googletest", "DIR", "a checkout of GoogleTest (default: the system's package)", files=True),
        Option("--benchmark", "DIR", "a checkout of Google Benchmark (default: the system's package)", files=True),
        Option("--filter", "PATTERN", "only programs whose name fits the shell pattern; may be given several times",
               many=True),
        Option("--jobs", "N", "compilers at once (default: ninja decides)", default=0, read=positive_count),
        Option("-q, --quiet", "", "no progress, only the result"),
        JSON,
    ),
    arguments=(Argument("SUITE", "the suite", choices=("gvisor",), attribute="suite"),),
    end="Exit code 0: every program is built; 1: some is not, and why is said.",
)  # fmt: skip

_RUNTIME = Option("--runtime", "NAME", "only runs of this runtime, as husk, husk-bare or runsc")
_RUN = "a run by name, `latest`, `latest~1` (the one before it of the same runtime and suites), or a results.json"
HISTORY = Command(
    "history",
    "the runs so far with their scores and trend, or what became of a case in them",
    options=(
        _RUNTIME,
        Option("--case", "PATTERN", "cases whose SUITE/FILE/CASE fits the shell pattern, run by run"),
        Option("--last", "N", "so many runs, the newest (default: 30; with --json: all)", read=positive_count,
               default=0),
        JSON,
    ),
)  # fmt: skip
DIFF = Command(
    "diff",
    "what changed between two runs: regressions, fixes, cases that came and went",
    options=(_RUNTIME, JSON),
    arguments=(Argument("OLD", _RUN), Argument("NEW", _RUN)),
    end="A flaky case counts as neither. Exit code 0: no regression; 1: some.",
)
BISECT = Command(
    "bisect",
    "between which runs a case changed, and with which commit",
    "Find the two runs, one right after the other, between which a case changed. With --repo: find the commit between"
    " them, in a clone of its own, and leave the repository alone. A search that was stopped goes on where it was.",
    options=(
        _RUNTIME,
        Option("--repo", "DIR", "the git repository that the runtime is built from", files=True),
        Option("--suite", "SUITE", "with --repo: the suite file that the case is in", files=True),
        Option("--build", "COMMAND", "with --repo: a shell command that builds a checkout, as 'make setup'"),
        Option("--under", "PREFIX", "with --repo: the words that start the runtime; {tree} is the checkout (default for"
               " husk: '{tree}/.venv/bin/husk run')"),
        Option("--user", "USER", "with --repo: run the case as this user; husk run as root only"),
        Option("--build-timeout", "S", "seconds for one build (default: 3600)", read=time_limit, default=3600.0),
        JSON,
    ),
    arguments=(
        Argument("CASE", "SUITE/FILE/CASE, or a shell pattern that one case fits"),
        Argument("GOOD", "a run; without both runs the newest change is found", count="?"),
        Argument("BAD", "another run", count="?"),
    ),
)  # fmt: skip
NIGHTLY = Command(
    "nightly",
    "trace, choose, run, compare with the night before, write the documents: for a timer",
    options=(
        Option("--publish", "", "commit the documents on a branch and open a pull request with gh, or update the open"
               " one"),
        Option("--dry-run", "", "show what would be done; nothing is run, written or pushed"),
        Option("-q, --quiet", "", "no progress, only the result"),
        JSON,
    ),
    arguments=(Argument("CONFIG", "a TOML file that says what to run"),),
    end="Exit code 0: no change; 3: something to report; 1: a regression.",
)  # fmt: skip
IMPORT = Command(
    "import",
    "add the runs of some results.json to the history",
    options=(JSON,),
    arguments=(Argument("RESULTS", "a results.json", count="+"),),
)
FORGET = Command(
    "forget",
    "remove runs from the history",
    options=(JSON,),
    arguments=(Argument("RUN", "the name of a run", count="+", attribute="runs"),),
)
_CALLS = Option("--calls", "FILE", "which file exercises which call (default: what `husk conform trace` keeps)",
                files=True, more="[The format](formats/calls.md).")  # fmt: skip
_USES = Option("--uses", "FILE", "which program makes which call (default: what `husk conform uses` keeps)", files=True,
               more="[The format](formats/uses.md).")  # fmt: skip
_FROM_HISTORY = Option("--run", "RUN", f"{_RUN}; may be given several times", many=True, attribute="runs")

TRACE_SUITES = Command(
    "trace",
    "trace the files of suites, to learn which calls each exercises",
    "Run each file of the suites once in husk with a trace, within bounds of time, and keep which calls it made. What"
    " is known already is not run again, so the command can be stopped and started at any time.",
    options=(
        Option("--out", "FILE", "where it is kept (default: calls.json in the data directory); its other suites stay",
               files=True, more="[The format](formats/calls.md)."),
        Option("--seconds", "S", "for one file, all its units together (default: 20)"),
        Option("--jobs", "N", "files at once (default: the number of processors)"),
        Option("--setting", "walled|bare", "with namespaces (default), or without",
               choices=("walled", "bare"), default="walled"),
        Option("--misses", "RUN", f"instead, trace the cases that a run missed, each alone, and keep excerpts in"
               f" traces.json for the report: {_RUN}", more="[The format](formats/traces.md)."),
        Option("--most", "N", "with --misses: so many cases (default: 300)"),
        Option("--fresh", "", "trace everything anew"),
        Option("-q, --quiet", "", "no progress, only the result"),
        JSON,
    ),
    arguments=(Argument("SUITE", "a suite file, or a directory that holds suite.toml", count="+", attribute="suites"),),
)  # fmt: skip
MEASURE_USES = Command(
    "uses",
    "measure which calls sh, bash, python, node and skills make, and whether they work",
    "Run a few scripts of each interpreter, and the cases of skills, in husk with a trace. What is known already is not"
    " run again.",
    options=(
        Option("--skills", "DIR", "a skill with cases, or a folder of such; may be given several times", many=True,
               files=True),
        Option("--out", "FILE", "where it is kept (default: uses.json in the data directory)", files=True,
               more="[The format](formats/uses.md)."),
        Option("--setting", "walled|bare", "with namespaces (default), or without",
               choices=("walled", "bare"), default="walled"),
        Option("--fresh", "", "measure everything anew"),
        Option("-q, --quiet", "", "no progress, only the result"),
        JSON,
    ),
)  # fmt: skip
MATRIX = Command(
    "matrix",
    "the coverage matrix: each call, what husk does with it, what exercises it, who uses it",
    options=(
        Option("--results", "FILE", "a results.json, for the cases that pass; may be given several times", many=True,
               files=True),
        _FROM_HISTORY,
        _CALLS,
        _USES,
        Option("--priority", "critical|high|medium|low", "only calls of this priority",
               choices=("critical", "high", "medium", "low")),
        Option("--markdown", "", "as a Markdown table"),
        JSON,
    ),
    arguments=(Argument("CALL", "only these calls", count="*", attribute="calls_wanted"),),
)  # fmt: skip
REPORT = Command(
    "report",
    "write the documents about runs: Markdown, HTML, results.json, JUnit XML",
    "Write SYSCALL_ANALYSIS.md, CAPABILITIES.md, EVALUATION_DATE.md, report.html, results.json and junit.xml into a"
    " directory. Without a run it is about the last one of the history.",
    options=(
        Option("--out", "DIR", "where they go; made if it is missing", files=True),
        _FROM_HISTORY,
        _CALLS,
        _USES,
        Option("--traces", "FILE", "what missed cases called (default: what `husk conform trace --misses` keeps)",
               files=True, more="[The format](formats/traces.md)."),
        Option("--date", "YYYY-MM-DD", "of the documents (default: when the first run ended)"),
        JSON,
    ),
    arguments=(Argument("RESULTS", "a results.json; the first is the one the documents are about", count="*",
                        attribute="results"),),
)  # fmt: skip

CONFORM = Command(
    "conform",
    "how much of Linux a runtime does, measured with real test suites",
    "Run test suites in husk or another runtime, hold the results against a native run, keep their history and write"
    " reports.",
    commands=(
        BUILD_SUITE,
        RUN_SUITES,
        SHOW,
        HISTORY,
        DIFF,
        BISECT,
        NIGHTLY,
        IMPORT,
        FORGET,
        TRACE_SUITES,
        MEASURE_USES,
        MATRIX,
        REPORT,
    ),
)
