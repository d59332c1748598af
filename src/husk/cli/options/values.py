"""cli: values that options read: sizes, counts, times. A wrong word is a UsageError that says what to write."""

from __future__ import annotations

from husk.sandbox.errors import UsageError

_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def byte_count(text: str) -> int:
    unit = text[-1:].lower() if text[-1:].isalpha() else ""
    number = text[: len(text) - len(unit)]
    if not number.isdecimal() or unit not in _SIZES or not int(number):
        raise UsageError(f"{text!r} is no size; write a number, perhaps with k, m, g or t, such as 8g.")
    return int(number) * _SIZES[unit]


def positive_count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise UsageError(f"{text!r} is no number above 0.")
    return int(text)


def thread_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise UsageError(f"{text!r} is not a number of threads; write one from 1 to 256.")
    return int(text)


def duration(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in _SECONDS:
        raise UsageError(f"{text!r} is not a time; write a number and s, m, h, d or w, such as 7d.")
    return float(int(number) * _SECONDS[unit])


def run_count(text: str) -> int:
    if not text.isdecimal() or len(text) > 2 or int(text) > 50:
        raise UsageError(f"{text!r} is no number of runs; write one from 0 to 50.")
    return int(text)


def time_limit(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86400:
        raise UsageError(f"{text!r} is no time; write a number of seconds, such as 10 or 0.5.")
    return seconds
