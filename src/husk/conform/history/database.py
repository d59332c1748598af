"""conform/history: runs over time: add one, list them, read one back, follow a case through all of them.

Each question touches the rows it is about, through an index: a hundred thousand cases times many runs cost no more than
the cases and runs that were asked for. A run is added whole or not at all.

Not here: the file and its schema (history_file.py), comparing two runs (run_changes.py).
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from husk.conform.history.history_file import open_history_file, told
from husk.conform.outcomes import CaseName, Judged, RunInfo, RunRecord, Score, score
from husk.conform.places import conform_directory
from husk.sandbox.errors import HuskError, UsageError

LARGEST_TEXT = 16 << 20  # bytes that a text may unpack to: more is no text of ours
_PLAIN, _ZLIB = b"p", b"z"  # the first byte of a packed text


@dataclass(frozen=True)
class RecordedRun:
    """A run without its cases."""

    info: RunInfo
    score: Score


@dataclass(frozen=True)
class Sighting:
    """What one case did in one run."""

    info: RunInfo
    case: Judged


class History:
    """One open history file. Use it in a `with` statement, or close it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_history_file(path)

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    # -- writing -----------------------------------------------------------------------------------------------------
    def add(self, record: RunRecord) -> bool:
        """False: this very run is there already. UsageError: another one has its name."""
        info = _plain_info(record.info)
        cases = [_plain_case(one) for one in record.cases]
        digest = _digest(repr(info), *map(_content, cases))
        with self._writing() as file:
            known = file.execute("SELECT digest FROM runs WHERE run = ?", (info.run,)).fetchone()
            if known:
                if bytes(known[0]) == digest:
                    return False
                raise UsageError(f"the history holds another run {info.run}; forget it, or give this one another name.")
            # Ids grow with time of recording; what was started first is told by `started`.
            run = file.execute(
                "INSERT INTO runs (run, runtime, suites, started, about, score, digest) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (info.run, info.runtime, _suites(info.suites), info.started, json.dumps(asdict(info)),
                 json.dumps(asdict(score(cases))), digest),
            ).lastrowid  # fmt: skip
            names = _ids_of_cases(file, cases)
            standings = _ids_of_standings(file, cases)
            texts = _ids_of_texts(file, (text for one in cases for text in (one.why, one.output) if text))
            file.executemany(
                "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    (run, position, names[one.name], standings[_standing(one)], one.seconds,
                     texts.get(one.why), texts.get(one.output))
                    for position, one in enumerate(cases)
                ),
            )  # fmt: skip
        return True

    def forget(self, run: str) -> None:
        """The run, and what only it used. The file keeps its size: the room is used again."""
        with self._writing() as file:
            number = self._number(run)
            used = file.execute("SELECT case_id, why, output FROM results WHERE run = ?", (number,)).fetchall()
            file.execute("DELETE FROM results WHERE run = ?", (number,))
            file.execute("DELETE FROM runs WHERE id = ?", (number,))
            file.executemany(
                "DELETE FROM texts WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM results WHERE why = ?1)"
                " AND NOT EXISTS (SELECT 1 FROM results WHERE output = ?1)",
                [(text,) for text in {text for row in used for text in row[1:] if text is not None}],
            )
            file.executemany(
                "DELETE FROM cases WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM results WHERE case_id = ?1)",
                [(one,) for one in {row[0] for row in used}],
            )

    # -- reading -----------------------------------------------------------------------------------------------------
    def runs(self, runtime: str = "") -> list[RecordedRun]:
        """All of them, or those of one runtime; the oldest first."""
        with told(self.path):
            rows = self._file.execute(
                "SELECT about, score FROM runs WHERE runtime = ? ORDER BY started, run" if runtime else
                "SELECT about, score FROM runs ORDER BY started, run",
                (runtime,) if runtime else (),
            ).fetchall()  # fmt: skip
        return [RecordedRun(self._info(about), self._score(counts)) for about, counts in rows]

    def record(self, run: str, *, outputs: bool = True) -> RunRecord:
        """The whole run. Without outputs it takes less memory: enough to compare."""
        with self._reading() as file:
            number = self._number(run)
            (about,) = file.execute("SELECT about FROM runs WHERE id = ?", (number,)).fetchone()
            rows = file.execute(
                f"SELECT {_columns(outputs=outputs)} WHERE run = ? ORDER BY position",
                (number,),
            ).fetchall()
        with self._of_ours():
            return RunRecord(self._info(about), [_judged(row) for row in rows])

    def latest(self, runtime: str, suites: Iterable[str], before: str = "") -> RunRecord | None:
        """The newest whole run of these suites there, without a filter of cases; with `before`, one that was started
        before that run."""
        for found in reversed(self.line(runtime, suites)):
            if found.info.run == before:
                before = ""
            elif not before and found.info.whole and not found.info.case_filter:
                return self.record(found.info.run)
        return None

    def line(self, runtime: str, suites: Iterable[str]) -> list[RecordedRun]:
        """The runs that can be held against each other: of one runtime and the same suites, the oldest first."""
        with told(self.path):
            rows = self._file.execute(
                "SELECT about, score FROM runs WHERE runtime = ? AND suites = ? ORDER BY started, run",
                (runtime, _suites(suites)),
            ).fetchall()
        return [RecordedRun(self._info(about), self._score(counts)) for about, counts in rows]

    def cases(self, pattern: str) -> list[CaseName]:
        """Those whose SUITE/FILE/CASE fits the shell pattern, by name."""
        with told(self.path):
            rows = self._file.execute("SELECT suite, file, name FROM cases").fetchall()
        names = (CaseName(*row) for row in rows)
        return sorted(name for name in names if fnmatch.fnmatchcase(str(name), pattern))

    def of_case(self, name: CaseName, runtime: str = "") -> list[Sighting]:
        """What became of it, the oldest run first. Runs that did not have it are left out."""
        with told(self.path):
            rows = self._file.execute(
                f"SELECT about, {_columns()} JOIN runs ON runs.id = results.run"
                " WHERE suite = ? AND file = ? AND name = ? AND (?4 = '' OR runtime = ?4) ORDER BY started, runs.run",
                (name.suite, name.file, name.case, runtime),
            ).fetchall()
        with self._of_ours():
            return [Sighting(self._info(row[0]), _judged(row[1:])) for row in rows]

    # -- how ---------------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction. IMMEDIATE: it waits for another writer at its beginning, where nothing can be lost."""
        with told(self.path), _transaction(self._file, "BEGIN IMMEDIATE"):
            yield self._file

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Several questions about one state."""
        with told(self.path), _transaction(self._file, "BEGIN"):
            yield self._file

    def _number(self, run: str) -> int:
        row = self._file.execute("SELECT id FROM runs WHERE run = ?", (run,)).fetchone()
        if not row:
            raise UsageError(f"the history holds no run {run!r}; `husk conform history` lists them.")
        return int(row[0])

    def _info(self, about: str) -> RunInfo:
        with self._of_ours():
            known = {one.name for one in fields(RunInfo)}
            values = {key: value for key, value in json.loads(about).items() if key in known}
            return RunInfo(**values | {"suites": tuple(values["suites"])})

    def _score(self, text: str) -> Score:
        with self._of_ours():
            return Score(**json.loads(text))

    @contextlib.contextmanager
    def _of_ours(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
            what = f"{type(error).__name__}: {error}"
            raise HuskError(f"{self.path}: damaged ({what}); nothing was overwritten.") from None


def open_history() -> History:
    return History(conform_directory() / "history.db")


def _columns(*, outputs: bool = True) -> str:
    """The columns of a case in a run, and the tables they are in. A text is looked up where there is one."""
    output = "(SELECT packed FROM texts WHERE texts.id = output)" if outputs else "NULL"
    return (
        "suite, file, name, family, verdict, outcome, expected, by_design, seconds,"
        f" (SELECT packed FROM texts WHERE texts.id = why), {output}"
        " FROM results JOIN cases ON cases.id = case_id JOIN standings ON standings.id = standing"
    )


def _judged(row: tuple[Any, ...]) -> Judged:
    suite, file, name, family, verdict, outcome, expected, by_design, seconds, why, output = row
    return Judged(
        CaseName(suite, file, name), family, verdict, outcome, float(seconds), _unpacked(why), _unpacked(output),
        expected, bool(by_design),
    )  # fmt: skip


@contextlib.contextmanager
def _transaction(file: sqlite3.Connection, begin: str) -> Iterator[None]:
    file.execute(begin)
    try:
        yield
        file.execute("COMMIT")
    except BaseException:
        if file.in_transaction:
            file.execute("ROLLBACK")
        raise


def _ids_of_cases(file: sqlite3.Connection, cases: list[Judged]) -> dict[CaseName, int]:
    names = {one.name for one in cases}
    file.executemany(
        "INSERT OR IGNORE INTO cases (suite, file, name) VALUES (?, ?, ?)",
        sorted((name.suite, name.file, name.case) for name in names),
    )
    return {
        CaseName(suite, *rest): number
        for suite in {name.suite for name in names}
        for number, *rest in file.execute("SELECT id, file, name FROM cases WHERE suite = ?", (suite,))
    }


def _standing(one: Judged) -> tuple[str, str, str, str, bool]:
    return one.family, one.verdict, one.outcome, one.expected, one.by_design


def _ids_of_standings(file: sqlite3.Connection, cases: list[Judged]) -> dict[tuple[str, str, str, str, bool], int]:
    found = {}
    for standing in sorted({_standing(one) for one in cases}):
        file.execute(
            "INSERT OR IGNORE INTO standings (family, verdict, outcome, expected, by_design) VALUES (?, ?, ?, ?, ?)",
            standing,
        )
        (found[standing],) = file.execute(
            "SELECT id FROM standings WHERE family = ? AND verdict = ? AND outcome = ? AND expected = ?"
            " AND by_design = ?",
            standing,
        ).fetchone()
    return found


def _ids_of_texts(file: sqlite3.Connection, texts: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        if text in found:
            continue
        digest = _digest(text)
        row = file.execute("SELECT id FROM texts WHERE digest = ?", (digest,)).fetchone()
        if row:
            found[text] = row[0]
        else:
            row = (digest, _packed(text.encode()))
            number = file.execute("INSERT INTO texts (digest, packed) VALUES (?, ?)", row).lastrowid
            assert number is not None
            found[text] = number
    return found


def _packed(content: bytes) -> bytes:
    small = zlib.compress(content, 6)
    return _ZLIB + small if len(small) < len(content) else _PLAIN + content


def _unpacked(packed: object) -> str:
    if packed is None:
        return ""
    if not isinstance(packed, bytes) or packed[:1] not in (_PLAIN, _ZLIB):
        raise ValueError("no packed text")
    if packed[:1] == _PLAIN:
        return packed[1:].decode()
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(packed[1:], LARGEST_TEXT)
    if not unpacker.eof:
        raise ValueError("a text that is cut off, or too large")
    return content.decode()


def _digest(*texts: str) -> bytes:
    summed = hashlib.blake2b(digest_size=20)
    for text in texts:
        summed.update(text.encode())
    return summed.digest()


def _suites(suites: Iterable[str]) -> str:
    return json.dumps(sorted(set(suites)))


def _plain(text: str) -> str:
    """Half a surrogate pair, which JSON can spell, has no place in UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _plain_info(info: RunInfo) -> RunInfo:
    texts: dict[str, Any] = {key: _plain(value) for key, value in asdict(info).items() if isinstance(value, str)}
    return replace(info, suites=tuple(map(_plain, info.suites)), **texts)


def _plain_case(one: Judged) -> Judged:
    name = one.name
    texts = (name.suite, name.file, name.case, one.family, one.why, one.output, one.expected)
    if all(map(_is_plain, texts)):
        return one
    suite, file, case, family, why, output, expected = map(_plain, texts)
    return replace(one, name=CaseName(suite, file, case), family=family, why=why, output=output, expected=expected)


def _is_plain(text: str) -> bool:
    if text.isascii():
        return True
    try:
        return bool(text.encode())
    except UnicodeEncodeError:
        return False


def _content(one: Judged) -> str:
    return repr((one.name.suite, one.name.file, one.name.case, *_standing(one), one.seconds, one.why, one.output))
