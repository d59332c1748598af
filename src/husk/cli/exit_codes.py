"""cli: how commands end that several of them share: a reader that left, and the store's way of failing."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from husk.abi.text import harmless_lines

if TYPE_CHECKING:
    import argparse

    from husk.sandbox.errors import HuskError
    from husk.store.store_errors import StoreError


def reader_left() -> int:
    """After BrokenPipeError: the reader, `head` for one, has seen enough. What Python still flushes goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def run_on_store(name: str, options: argparse.Namespace, errors: tuple[type[StoreError | HuskError], ...]) -> int:
    """Run the subcommand that was chosen; its failures are one sentence, and one JSON object where that was wanted."""
    try:
        code: int = options.run(options)
        return code
    except errors as error:
        if options.json:
            print(json.dumps({"error": str(error)}))
        print(f"husk {name}: {harmless_lines(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"husk {name}: stopped; nothing half-done is left in the store.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return reader_left()
