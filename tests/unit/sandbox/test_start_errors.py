"""Every failure of husk-init has a sentence that says what to do."""

from __future__ import annotations

import errno

import pytest

from husk.sandbox.errors import HuskError, NoNamespaces
from husk.sandbox.start_errors import FILTER_STEP, NAMESPACE_STEPS, STEPS, explain


@pytest.mark.parametrize("step", range(1, len(STEPS) + 3))
@pytest.mark.parametrize("error", [errno.EPERM, errno.EBUSY, errno.EINVAL, errno.ENOSYS, errno.ENOSPC])
def test_every_failure_has_a_sentence(step: int, error: int) -> None:
    told = explain(step, error)
    sentence = str(told)
    assert isinstance(told, HuskError) and told.exit_code == 125
    if step not in NAMESPACE_STEPS:
        assert not isinstance(told, NoNamespaces), "a second try without namespaces would fail the same way"
    assert "Errno" not in sentence and "\n" not in sentence and len(sentence) > 10


@pytest.mark.parametrize("step", NAMESPACE_STEPS)
@pytest.mark.parametrize("error", [errno.EPERM, errno.EACCES, errno.ENOSPC, errno.ENOSYS])
def test_denied_namespaces_are_told_apart(step: int, error: int) -> None:
    """Then a box without them is tried."""
    assert isinstance(explain(step, error), NoNamespaces)


def test_a_listener_that_exists_already_is_named() -> None:
    assert "listener" in str(explain(FILTER_STEP, errno.EBUSY))
    assert "5.19" in str(explain(FILTER_STEP, errno.EINVAL))


def test_descriptors_under_way_are_told() -> None:
    """No matter which transfer of a descriptor fails first."""
    assert all("ulimit -n" in str(explain(step, errno.ETOOMANYREFS)) for step in range(1, len(STEPS)))
