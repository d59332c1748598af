"""sandbox: explain in a sentence why a box could not be built, from the step and the errno that husk-init reports."""

from __future__ import annotations

import errno
import os

from husk.sandbox.errors import HuskError, NoNamespaces, missing

# As in native/init/plan.h.
STEPS = (
    "",
    "reading its plan",
    "making namespaces",
    "emptying the root",
    "raising loopback",
    "changing user",
    "setting the host name",
    "starting the reaper",
    "dropping capabilities",
    "setting no_new_privs",
    "Landlock",
    "the seccomp filter",
    "handing over the listener",
    "setting limits",
    "entering the working directory",
    "making a session of its own",
    "being told what to run",
    "marking its processes",
    "making code",
)
NAMESPACE_STEPS, USER_STEP, FILTER_STEP, MARK_STEP, NEW_CODE_STEP = (2, 3, 4, 6), 5, 11, 17, 18


def explain(step: int, error: int) -> HuskError:
    text = f"{STEPS[step] if step < len(STEPS) else 'husk-init'}: {os.strerror(error)}"
    # Some hosts let every user make a user namespace but give no capability in it, which shows only when it is used.
    if step in NAMESPACE_STEPS and error in (errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSPC, errno.ENOSYS):
        return NoNamespaces(text)
    if step == USER_STEP and error == errno.EPERM:
        return missing("user")
    if step == FILTER_STEP and error == errno.EBUSY:
        return missing("seccomp-alone")
    if step == FILTER_STEP and error in (errno.EINVAL, errno.ENOSYS):
        return missing("seccomp-killable")
    if step == NEW_CODE_STEP and error in (errno.EACCES, errno.EPERM):
        return missing("new-code")
    if step == MARK_STEP and error == errno.EPERM:
        return HuskError(
            "without namespaces husk marks its processes by their limit on file locks, which the caller's own limit "
            "does not allow; set that to unlimited (`ulimit -Hx`)."
        )
    if error == errno.ETOOMANYREFS:
        return HuskError(
            "the box could not be built: this user has as many descriptors under way in Unix sockets as `ulimit -n` "
            "allows; end the program that leaves them there, perhaps in another box, or raise the limit."
        )
    return HuskError(f"the box could not be built: {text}.")
