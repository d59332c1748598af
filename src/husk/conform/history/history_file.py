"""conform/history: the SQLite file: its schema, opening it, and what can be wrong with it. docs/formats/history.md.

A file that is not a history of ours is never opened by SQLite: opening one can already change it, because SQLite rolls
back what a killed writer left. Its first hundred bytes tell what it is.

Rollback journal, not WAL: a history is written once for each run, by a transaction of seconds, so readers hardly ever
wait. WAL would need shared memory beside the file. It does not work in a home directory on a network file system, and
a reader that cannot write there could not read. Without WAL the history is one file, and `cp` is a backup.

Not here: what is asked of the file (database.py).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from husk.sandbox.errors import HuskError

FORMAT = 1
APPLICATION_ID = 0x6875736B  # "husk", in the header of the file
WAIT_SECONDS = 60.0  # for another writer
_MAGIC = b"SQLite format 3\0"
_HEADER = 100

# A result is a row of a few small numbers: all texts are kept once, however many runs repeat them. `position` keeps the
# order of the run. The two partial indexes let a run be forgotten without reading all the others.
SCHEMA = f"""
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL UNIQUE,
    runtime TEXT NOT NULL,
    suites TEXT NOT NULL,
    started TEXT NOT NULL,
    about TEXT NOT NULL,
    score TEXT NOT NULL,
    digest BLOB NOT NULL
);
CREATE INDEX runs_by_time ON runs (started, run);
CREATE INDEX runs_by_runtime ON runs (runtime, suites, started, run);
CREATE TABLE cases (
    id INTEGER PRIMARY KEY,
    suite TEXT NOT NULL,
    file TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (suite, file, name)
);
CREATE TABLE standings (
    id INTEGER PRIMARY KEY,
    family TEXT NOT NULL,
    verdict TEXT NOT NULL,
    outcome TEXT NOT NULL,
    expected TEXT NOT NULL,
    by_design INTEGER NOT NULL,
    UNIQUE (family, verdict, outcome, expected, by_design)
);
CREATE TABLE texts (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    packed BLOB NOT NULL
);
CREATE TABLE results (
    run INTEGER NOT NULL REFERENCES runs,
    position INTEGER NOT NULL,
    case_id INTEGER NOT NULL REFERENCES cases,
    standing INTEGER NOT NULL REFERENCES standings,
    seconds REAL NOT NULL,
    why INTEGER REFERENCES texts,
    output INTEGER REFERENCES texts,
    PRIMARY KEY (run, position)
) WITHOUT ROWID;
CREATE INDEX results_by_case ON results (case_id, run);
CREATE INDEX results_by_why ON results (why) WHERE why IS NOT NULL;
CREATE INDEX results_by_output ON results (output) WHERE output IS NOT NULL;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
"""


def open_history_file(path: Path) -> sqlite3.Connection:
    """Made if it is missing. HuskError: it is no history of ours, it is damaged, or it cannot be opened."""
    with told(path):
        if not path.exists():
            _make(path)
        _check_header(path)
        connection = _connect(path)
        try:
            # A file that somebody else made may carry views and triggers: no function of SQLite's runs for them.
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("SELECT count(*) FROM runs WHERE id < 0")
        except BaseException:
            connection.close()
            raise
        return connection


def _connect(path: Path) -> sqlite3.Connection:
    # Transactions are begun and ended in database.py, not guessed by Python's module.
    connection = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _make(path: Path) -> None:
    """Whole under another name, then linked: a writer that is killed leaves no half file, and of two that make it at
    once one wins."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    try:
        with contextlib.closing(_connect(Path(name))) as connection:
            connection.executescript(f"BEGIN; {SCHEMA} COMMIT;")
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        for left in (name, f"{name}-journal"):
            Path(left).unlink(missing_ok=True)


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(_HEADER)
    application = int.from_bytes(head[68:72], "big")
    version = int.from_bytes(head[60:64], "big")
    if len(head) < _HEADER or not head.startswith(_MAGIC) or application != APPLICATION_ID:
        raise HuskError(f"{path}: not a history of husk; move it away, or set HUSK_CONFORM to another directory.")
    if version != FORMAT:
        raise HuskError(f"{path}: the history of another husk (format {version}, this one writes {FORMAT}).")


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """What SQLite and the host say, as one sentence. What was being written is rolled back: the file is as before."""
    try:
        yield
    except sqlite3.Error as error:
        raise HuskError(f"{path}: {_sentence(error)}") from None
    except OSError as error:
        raise HuskError(f"{path}: {error.strerror}; nothing was changed.") from None


def _sentence(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"another husk writes there for more than {WAIT_SECONDS:.0f} seconds; try again. Nothing was changed."
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return f"it cannot be written ({error}); make room. What was recorded before is still there."
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return f"{error}; the file and its directory must be yours to write. Nothing was changed."
    return (
        f"damaged ({error}); nothing was overwritten. Move it away; `husk conform import` takes the runs again from"
        " their results.json."
    )
