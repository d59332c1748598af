"""The layer table of src/husk: what each folder may import, in which order its rooms stand, what may not be imported.

Data only. tests/unit/test_layers.py holds every import against it; tools/folder_table.py prints it. When a rule stops a
change, the change is usually in the wrong room; otherwise change the table in the same commit, with the reason.
"""

from __future__ import annotations

# Folder -> what it may import, as dotted prefixes below `husk`. A folder may always import from itself (see ORDER).
KERNEL_LAYERS: dict[str, set[str]] = {
    "abi": set(),
    "native": {"abi"},
    "walls": {"abi", "native"},
    # From native only the C module: its tree walk and manifest reader know nothing of guests. From abi only how names
    # are shown.
    "store": {"native._core", "abi.text"},
    # From native only the C module's host functions: opening a host file beneath a directory without following links is
    # a system call that the standard library lacks, and it knows nothing of guests or notifications. So it is with
    # real paths.
    "vfs": {"abi", "store", "native._core", "native.real_paths"},
    "kernel": {"abi", "native", "vfs"},
    "sandbox": {"abi", "native", "walls", "store", "vfs", "kernel"},
}
# What people use stands on the sandbox and the store. `abi` too: the registry is data that is printed and analysed.
_BELOW_TOP = {"sandbox", "store", "abi"}
LAYERS = KERNEL_LAYERS | {
    "images": _BELOW_TOP | {"native._core"},  # native as for the store: opening beneath a directory
    # Work on other machines: from the sandbox the errors, and the doctor's rows.
    "cluster": {"sandbox"},
    # The Python API hands out what the kernel shows: calls to hook, files of the box.
    "api": _BELOW_TOP | {"kernel", "vfs", "cluster"},
    # native as for the store; kernel.emulation: the type of what a request hands through to the policy.
    "skills": _BELOW_TOP | {"api", "cluster", "native._core", "kernel.emulation"},
    # What a program asks for, and what runtimes offer: from registry and walls, by running boxes.
    # From the kernel the emulated surface, and how it reads the head of a program file: `#!` lines and APE headers.
    "compat": _BELOW_TOP | {"api", "cluster", "images", "skills", "walls", "kernel.emulation", "kernel.exec.program"},
    # Who approves a skill wants what reading and running tell, and how it stands with runtimes.
    "review": _BELOW_TOP | {"api", "skills", "compat"},
    # Measuring runtimes with suites: by running boxes and other commands, with what compat knows about calls.
    "conform": _BELOW_TOP | {"api", "cluster", "skills", "compat"},
    "mcp": _BELOW_TOP | {"api", "skills", "images"},
    "cli": _BELOW_TOP | {"native.threads", "api", "cluster", "images", "skills", "compat", "review", "conform", "mcp"},
}

# Folder -> its levels, the lowest first. A level names modules and sub-packages; a dotted name is one module of a
# sub-package and goes before the sub-package's own level. A module imports from its own level and from lower ones;
# sub-packages on one level do not import each other. `*` is the level of every module that is not named.
ORDER: dict[str, tuple[str, ...]] = {
    "abi": ("*", "registry"),
    "vfs": (
        "access clock fd_reserve host_view invalidation node permissions pinned state",
        "holders mount_table mounts placeholders running_programs walk",
        "host synth",
        "layer proc",
        "image",
        "*",
    ),
    "kernel": (
        "changed_names call tasks blocking fd_tables exec.resident",
        "locks ipc listings identity",
        "net.msghdr net.netlink",
        "cred exec loopback",
        "net",
        "http",
        "made_files straight_names",
        "events hooks namecache",
        "syscalls",
        "*",
    ),
    "skills": (
        "box_runner cache_place open_skill archive frontmatter frozen_copy",
        "packages syntax",
        "scan collections",
        "*",
        "testing",
    ),
    # What runtimes offer; then ways to learn what a program asks for; then what joins the two.
    "compat": ("surface surface_writer census prefixes bounded_file html_shell", "runtimes", "probe look trace", "*"),
    # Values and files; then how suites run, and how they are judged; then what is made of the records.
    "conform": (
        "outcomes units suite_file json_file results_file places",
        "suites judge",
        "execute history",
        "matrix",
        "report",
        "*",
    ),
    "cli": ("output", "options", "*"),
    "sandbox": (
        # The doctor's rows are sentences that refusals quote.
        "errors start_errors locked_dir remove_tree toml_reader weaken orphans doctor.rows",
        "apply limits rules.path_rule rules.default_rules",
        "policy result state_dir kept.record",
        "rules devices",
        "stdio doctor image_source launch mount_guards network_setup",
        # A kept box's changes are laid over the trees while the file system is built.
        "kept.box_content kept.kept_boxes kept.image_hold kept.capture_layer",
        "filesystem",
        "kept",
        "*",
        # These work on an open box, or run one.
        "kept.take_snapshot kept.operations doctor.probes doctor.examine",
    ),
}

# Types from a higher room that a module names, and why. Only imports for type checkers are excused.
TYPES_FROM_ABOVE = {
    "kernel.loopback.ip_control": {"kernel.net.mapped"},  # the network that translates addresses hands itself over
    "sandbox.policy": {"sandbox.devices.passed_devices"},  # plain data that it holds
    "vfs.node": {"vfs.layer.watch_mirror"},  # a directory carries its mirror, which only the layer makes
    "vfs.pinned": {"vfs.layer.lower"},  # an orphan remembers where the layer found it
}

# What lives in the folders that have no Python package: those of the C core.
C_FOLDERS = {
    "native/notify": "Receiving notifications, reading guest memory and answering.",
    "native/fastpath": "The name cache, and what C answers without Python.",
    "native/layer": "What C knows of names that a box has made or hidden, and changes there; the vfs's lock.",
    "native/direct": "What guests are told of the host's /usr, so that they look names and programs up themselves.",
    "native/gate": "Questions about names that guests ask through shared memory, without a system call.",
    "native/remote": "Making a guest thread run a call: ptrace, signals, programs that wait for their loader.",
    "native/trace": "A census of what guests ask for: every call is noted, and native ones continued.",
    "native/host": "Host calls that Python lacks: opening beneath a directory, credentials, Landlock, sockets.",
    "native/store": "The store's tree walk, staging and manifest reader.",
    "native/client": "husk, the command: asks a resident husk to do a run, or becomes Python.",
    "native/init": "husk-init: builds the walls, starts the guest, ends with it.",
    "native/loader": "husk-loader: what the host executes in place of every guest program.",
    "compat/probe/checks": "The checks of husk-probe, one file for each family of calls.",
}

# And in those that hold data for a module beside them.
DATA_FOLDERS = {
    "review/templates": "The passport's page, its index and their style sheet.",
    "conform/report/templates": "The HTML report's page, style sheet and script.",
}

# Libraries from outside that a kernel layer may import: the few the design names.
LIBRARIES = {"store": {"blake3"}}
# Modules that cost more to import than a cold start can spare; a function that needs one imports it itself.
SLOW = {"asyncio", "dataclasses", "inspect", "json", "logging", "pathlib", "re", "subprocess", "tempfile", "typing"}
START_PATH = set(KERNEL_LAYERS) - {"store"}

# A folder is to be read at a glance: with more source files than this it gets sub-packages.
MOST_FILES = 20
# Names that say nothing about what is in a module.
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "manager", "managers", "misc", "common"}
