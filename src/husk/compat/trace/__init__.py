"""compat/trace: run a program so that every call it makes is seen, and show what it asked for.

How calls are seen: docs/design/014-tracing.md.
"""

from husk.compat.trace.traced_run import Traced, run_traced, trace

__all__ = ["Traced", "run_traced", "trace"]
