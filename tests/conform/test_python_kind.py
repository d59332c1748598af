"""CPython's regression tests: outcomes of each test from a real `python -m test`, with test modules of our own.

A package called `test` in front of the real one holds them: the real `regrtest` runs it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from husk.conform.suites import kind
from husk.conform.suites.regrtest_output import read_junit, read_lines, short_name
from husk.conform.units import Ended, Unit
from husk.sandbox.errors import UsageError
from tests.conform.small_suites import run_all, run_natively, write_suite

# A stand-in for regrtest: takes the same options, and prints and writes what it does, with unittest's own runner.
REGRTEST = """
import fnmatch, importlib, sys, unittest, xml.etree.ElementTree as tree
options = sys.argv[1:]
ignored = [options[at + 1] for at, word in enumerate(options) if word == "-i"]
modules = [word for at, word in enumerate(options) if word.startswith("test_") and options[at - 1] != "-i"]
if "--list-tests" in options:
    print("test_small\\ntest_left_out\\ntest_dies\\ntest_class\\ntest_hangs")
    sys.exit()
def cases(suite):
    for one in suite:
        yield from cases(one) if isinstance(one, unittest.TestSuite) else [one]
failed, written = False, tree.Element("testsuites")
class Result(unittest.TextTestResult):
    def note(self, test, name="", text=""):
        case = tree.SubElement(written, "testcase", name=test.id(), time="0.25")
        if name:
            tree.SubElement(case, name, message=text).text = text
    def addSuccess(self, test): self.note(test); super().addSuccess(test)
    def addFailure(self, test, err): self.note(test, "failure", str(err[1])); super().addFailure(test, err)
    def addSkip(self, test, reason): self.note(test, "skipped", reason); super().addSkip(test, reason)
for module in modules:
    try:
        loaded = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(f"test.{module}"))
    except unittest.SkipTest as error:
        print(f"{module} skipped -- {error}")
        continue
    chosen = [one for one in cases(loaded) if not any(fnmatch.fnmatchcase(one.id(), pattern) for pattern in ignored)]
    if "--list-cases" in options:
        print("\\n".join(one.id() for one in chosen))
        continue
    runner = unittest.TextTestRunner(sys.stdout, verbosity=2, resultclass=Result)
    failed |= not runner.run(unittest.TestSuite(chosen)).wasSuccessful()
if "--junit-xml" in options:
    tree.ElementTree(written).write(options[options.index("--junit-xml") + 1])
sys.exit(2 if failed else 0)
"""
SMALL = '''
import unittest
class Small(unittest.TestCase):
    def test_pass(self):
        """It has a first line."""
    def test_prints(self): print("noise, and then\\nok and more")
    def test_fail(self): self.assertEqual(1, 2)
    def test_error(self): raise OSError("no such thing")
    def test_skip(self): self.skipTest("no device")
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    def test_part(self):
        for number in range(2):
            with self.subTest(number=number):
                self.assertEqual(number, 0)
'''
DIES = """
import os, unittest
class Dies(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): os.abort()
    def test_c(self): os._exit(5)
    def test_d(self): pass
"""
HANGS = """
import time, unittest
class Hangs(unittest.TestCase):
    def test_a(self): time.sleep(60)
    def test_b(self): pass
"""
CLASS = """
import unittest
class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise OSError("no socket")
    def test_a(self): pass
class Skipped(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise unittest.SkipTest("no curses")
    def test_a(self): pass
"""
FILES = {
    "test/__init__.py": "", "test/__main__.py": REGRTEST, "test/test_small.py": SMALL, "test/test_dies.py": DIES,
    "test/test_hangs.py": HANGS, "test/test_class.py": CLASS,
    "test/test_left_out.py": "import unittest\nraise unittest.SkipTest('no gdbm')\n",
}  # fmt: skip


def head(place: Path) -> str:
    environment = f"[environment]\nPYTHONPATH = '{place}'\nPYTHONDONTWRITEBYTECODE = '1'\nPYTHONUNBUFFERED = '1'\n"
    return f"kind = 'python'\ntimeout = 60\n{environment}[settings]\npython = ['{sys.executable}', '-s']\n"


def test_every_ending(tmp_path: Path) -> None:
    names = ("test_small", "test_left_out", "test_dies", "test_class", "test_hangs")
    rows = [f"[[files]]\npath = '{name}'\ntimeout = {4 if name == 'test_hangs' else 60}\n" for name in names]
    found = run_all(write_suite(tmp_path, head(tmp_path) + "".join(rows), FILES))
    assert {name: (one.outcome, one.why) for name, one in found.items()} == {
        "test_small/Small.test_pass": ("pass", ""),
        "test_small/Small.test_prints": ("pass", ""),
        "test_small/Small.test_fail": ("fail", "AssertionError: 1 != 2"),
        "test_small/Small.test_error": ("fail", "OSError: no such thing"),
        "test_small/Small.test_skip": ("skip", "no device"),
        "test_small/Small.test_expected": ("pass", ""),
        "test_small/Small.test_part": ("fail", "AssertionError: 1 != 0"),
        "test_small/(module)": ("pass", ""),
        "test_left_out/(module)": ("skip", "no gdbm"),
        "test_dies/Dies.test_a": ("pass", ""),
        "test_dies/Dies.test_b": ("crash", "SIGABRT"),
        "test_dies/Dies.test_c": ("fail", "it ended the process with exit code 5"),
        "test_dies/Dies.test_d": ("pass", ""),
        "test_dies/(module)": ("pass", ""),
        "test_hangs/Hangs.test_a": ("hang", "it did not end within 4 s"),
        "test_hangs/Hangs.test_b": ("pass", ""),
        "test_hangs/(module)": ("pass", ""),
        "test_class/Broken.test_a": ("fail", "setUpClass: OSError: no socket"),
        "test_class/Skipped.test_a": ("skip", "no curses"),
        "test_class/(module)": ("pass", ""),
    }
    assert found["test_small/Small.test_pass"].seconds == 0.25
    assert "assertEqual(1, 2)" in found["test_small/Small.test_fail"].output


@pytest.mark.skipif(importlib.util.find_spec("test.libregrtest") is None, reason="no test package in this Python")
def test_the_real_one(tmp_path: Path) -> None:
    """A module of CPython's own, by its own regrtest."""
    text = f"kind = 'python'\n[settings]\npython = ['{sys.executable}']\n[[files]]\npath = 'test_fnmatch'\n"
    found = run_all(write_suite(tmp_path, text, {}))
    assert len(found) > 5 and {one.outcome for one in found.values()} == {"pass"}


def unit(*cases: str) -> Unit:
    return Unit("mini", "python", "test_a", ("python3", "-m", "test", "-v", "test_a"), cases)


@pytest.mark.parametrize(
    ("ended", "wanted"),
    [
        # It died before the first test: all of them, and nothing is left to run.
        (
            Ended(-11, False, 1.0, b"", b""),
            {"A.b": ("crash", "SIGSEGV, before the first test"), "(module)": ("crash", "SIGSEGV")},
        ),
        (
            Ended(1, False, 1.0, b"\xff\0\n", b"ImportError: no\n"),
            {
                "A.b": ("fail", "it did not run"),
                "(module)": ("fail", "no test ran, and it ended with exit code 1: ImportError: no"),
            },
        ),
        (
            Ended(3, False, 1.0, b"b (test.test_a.A.b) ... ok\n\nRan 1 test in 0.1s\n", b""),
            {"A.b": ("pass", ""), "(module)": ("fail", "exit code 3 though no test failed")},
        ),
        # Skipped there as a whole: by name, each case.
        (
            Ended(0, False, 1.0, b"test_a skipped -- no fork\n", b""),
            {"A.b": ("skip", "no fork"), "(module)": ("skip", "no fork")},
        ),
    ],
)
def test_modules_that_run_no_test(ended: Ended, wanted: dict[str, tuple[str, str]]) -> None:
    reading = kind("python").read(unit("A.b"), ended)
    assert {one.name.case: (one.outcome, one.why) for one in reading.results} == wanted and reading.rest is None


def test_modules_are_found(tmp_path: Path) -> None:
    units = kind("python").units(write_suite(tmp_path, head(tmp_path), FILES), run_natively)
    assert {unit.file: len(unit.cases) for unit in units} == {
        "test_small": 7, "test_left_out": 0, "test_dies": 4, "test_class": 2, "test_hangs": 2,
    }  # fmt: skip


def test_the_rest_leaves_out_what_had_its_turn() -> None:
    out = b"x (test.test_a.A.x) ... ok\ny (test.test_a.A.y) ... "
    reading = kind("python").read(unit("A.x", "A.y", "A.z"), Ended(-6, False, 1.0, out, b""))
    assert [(one.name.case, one.outcome) for one in reading.results] == [("A.x", "pass"), ("A.y", "crash")]
    assert reading.rest and reading.rest.cases == ("A.z",)
    assert reading.rest.argv[-5:] == ("-i", "*test_a.A.x", "-i", "*test_a.A.y", "test_a")


def test_names_of_older_versions() -> None:
    assert short_name("test_x", "test.test_os.FileTests", "test_os") == "FileTests.test_x"
    assert short_name("test_x", "test.test_os.FileTests.test_x", "test_os") == "FileTests.test_x"


@pytest.mark.parametrize(
    "content", [b"", b"<a", b"<!DOCTYPE a><a/>", b"<a><testcase/></a>", b'<a><testcase name="x" time="9e9"/></a>']
)
def test_a_junit_file_that_is_none(content: bytes) -> None:
    told = read_lines("", "test_a")
    read_junit(content, "test_a", told)
    assert told.outcomes == {}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", "`false -m test --list-tests` lists none; is Python's test package installed"),
        ("[[files]]\npath = 'test_a'\n", "--list-cases` knows none of them"),
    ],
)
def test_no_suite(tmp_path: Path, more: str, said: str) -> None:
    suite = write_suite(tmp_path, f"kind = 'python'\n[settings]\npython = ['false']\n{more}", {})
    with pytest.raises(UsageError, match=said):
        kind("python").units(suite, run_natively)
