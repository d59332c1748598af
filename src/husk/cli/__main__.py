"""cli: `python -m husk.cli`."""

import sys

from husk.cli import main

sys.exit(main())
