"""conform/matrix: how much a call matters, computed from what programs really call.

The rule. Measured are the interpreters and the skills of uses.json that could be run.

  critical  every interpreter makes the call
  high      at least two interpreters make it, or at least a quarter of the skills, and no fewer than two
  medium    some interpreter or some skill makes it
  low       none of them does

A call counts as made if a trace shows it once, whatever came of it. Without uses.json no call has a priority. With
fewer than two interpreters "every interpreter" says nothing, so no call is critical.
"""

from __future__ import annotations

from husk.conform.matrix.uses_file import INTERPRETER, SKILL, Uses

CRITICAL, HIGH, MEDIUM, LOW = "critical", "high", "medium", "low"
PRIORITIES = (CRITICAL, HIGH, MEDIUM, LOW)
NOT_MEASURED = "not measured"
ENOUGH_INTERPRETERS, FEW_SKILLS, SHARE_OF_SKILLS = 2, 2, 4  # one in four


def priority(call: str, uses: Uses | None) -> str:
    if uses is None:
        return NOT_MEASURED
    interpreters = uses.measured(INTERPRETER)
    skills = uses.measured(SKILL)
    if not interpreters and not skills:
        return NOT_MEASURED
    calling = sum(call in one.calls for one in interpreters)
    asking = sum(call in one.calls for one in skills)
    if calling == len(interpreters) >= ENOUGH_INTERPRETERS:
        return CRITICAL
    if calling >= ENOUGH_INTERPRETERS or (asking >= FEW_SKILLS and asking * SHARE_OF_SKILLS >= len(skills)):
        return HIGH
    return MEDIUM if calling or asking else LOW
