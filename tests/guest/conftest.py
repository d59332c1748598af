"""Lets these tests import `tests.guest.harness`: the repository's root is no package and not on the path by itself."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
