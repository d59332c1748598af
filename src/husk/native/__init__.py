"""native: the C core, and where its two companion programs are."""

from __future__ import annotations

import os

_HERE = os.path.dirname(os.path.abspath(__file__))
INIT = os.path.join(_HERE, "husk-init")
LOADER = os.path.join(_HERE, "husk-loader")
