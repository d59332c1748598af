"""api: values that go into a box and come back, as JSON: nothing that is read can be more than a value.

    None, bool, int, float, str  as JSON has them
    bytes, list, tuple, dict     ["b", base64], ["l", …], ["t", …], ["d", [key, value], …]

Guests get this file's text and run it, with whatever Python the box has: so it imports nothing of husk, and is plain
enough for Python 3.8. JSON and not pickle, because a guest wrote what the host reads. Not literals of Python
(ast.literal_eval) either: deeply nested ones can crash the interpreter.
"""

from __future__ import annotations

import base64

MOST_ALIKE = 64  # keys of a dict with the same hash


def wrap(value: object) -> object:
    """TypeError: it holds something else than the types above."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, bytes):
        return ["b", base64.b64encode(value).decode()]
    if isinstance(value, list) and kind is list:
        return ["l", *map(wrap, value)]
    if isinstance(value, tuple) and kind is tuple:
        return ["t", *map(wrap, value)]
    if isinstance(value, dict) and kind is dict:
        return ["d", *([wrap(key), wrap(one)] for key, one in value.items())]
    plain = "None, bool, int, float, str, bytes, list, tuple and dict"
    raise TypeError(f"{kind.__name__} is not a plain value: only {plain} go into a box and out")


def unwrap(data: object) -> object:
    """ValueError, TypeError, RecursionError: it is not what `wrap` makes."""
    if not isinstance(data, list):
        if isinstance(data, dict):
            raise ValueError("not a wrapped value")
        return data
    letter, rest = data[0], data[1:]
    if letter == "b" and len(rest) == 1:
        return base64.b64decode(rest[0], validate=True)
    if letter == "l":
        return [unwrap(one) for one in rest]
    if letter == "t":
        return tuple(unwrap(one) for one in rest)
    if letter == "d":
        return _dict_of([(unwrap(key), unwrap(one)) for key, one in rest])
    raise ValueError("not a wrapped value")


def _dict_of(pairs: list[tuple[object, object]]) -> dict[object, object]:
    """Whoever writes the keys can give all of them one hash, and a dict of such keys takes hours to make."""
    alike: dict[int, int] = {}
    for key, _ in pairs:
        found = alike[hash(key)] = alike.get(hash(key), 0) + 1
        if found > MOST_ALIKE:
            raise ValueError("too many keys have the same hash")
    return dict(pairs)
