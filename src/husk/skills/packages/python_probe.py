"""skills: a program that asks the box's own Python what it has. It runs inside a box, never here.

Given modules and requirements as JSON on stdin, it prints which of them are missing, and its version. It uses the box's
standard library, and for version specifiers `pip`, which is mounted into the box.
"""

PROBE = r"""
import importlib.metadata, importlib.util, json, sys
asked = json.load(sys.stdin)
try:
    from pip._vendor.packaging.requirements import Requirement
except ImportError:
    Requirement = None

def has_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False

seen = set()

def has_requirement(text):
    if Requirement is None:
        return False
    wanted = Requirement(text)
    if wanted.marker is not None and not wanted.marker.evaluate():
        return True
    try:
        if not wanted.specifier.contains(importlib.metadata.version(wanted.name), prereleases=True):
            return False
    except importlib.metadata.PackageNotFoundError:
        return False
    # Extras are packages of their own, and what they need may have extras in its turn.
    for extra in wanted.extras:
        for text in importlib.metadata.requires(wanted.name) or []:
            inner = Requirement(text)
            if inner.marker is None or "extra" not in str(inner.marker) or not inner.marker.evaluate({"extra": extra}):
                continue
            if (inner.name, extra) not in seen:
                seen.add((inner.name, extra))
                inner.marker = None
                if not has_requirement(str(inner)):
                    return False
    return True

print(json.dumps({
    "python": "%d.%d" % sys.version_info[:2],
    "modules": [name for name in asked["modules"] if not has_module(name)],
    "requirements": [text for text in asked["requirements"] if not has_requirement(text)],
}))
"""
