"""cli/skill: read the options that all commands of `husk skill` with a box share into a request."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from husk.sandbox.errors import UsageError
from husk.sandbox.kept.kept_boxes import check_name
from husk.sandbox.policy import Mount
from husk.sandbox.weaken import check as check_weaken
from husk.skills.box_runner import Setting
from husk.skills.package_wishes import lock_of, read_wishes
from husk.skills.permission_file import read_limits, read_permissions
from husk.skills.running import Request

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def read_request(options: Values, *, written: bool = False) -> Request:
    """`written`: the manifest may not be there yet."""
    request = Request(packages=options.packages, find_links=options.find_links)
    request.fetch = options.fetch or bool(options.index or options.registry)
    request.index, request.registry, request.index_hosts = options.index, options.registry, options.index_host
    request.hosts = options.allow_net
    request.setting = Setting(
        options.image,
        options.store,
        not options.no_namespaces,
        frozenset(check_weaken(name) for name in options.weaken),
    )
    if options.runtime:
        from husk.compat.emulate import emulation
        from husk.compat.runtimes import find

        request.emulation = emulation(find(options.runtime))
    for text in options.env:
        name, equals, value = text.partition("=")
        if not name or "\0" in text or (not equals and name not in os.environ):
            raise UsageError(f"--env {text}: write NAME=VALUE.")
        request.env[name] = value if equals else os.environ[name]
    for text in options.limit:
        name, _, value = text.partition("=")
        request.limits[name] = value
    if any("\0" in word for word in options.program):
        raise UsageError("an argument cannot hold a NUL byte.")
    request.args = options.program
    for name in ("script", "input", "output", "work", "lock", "shell"):
        setattr(request, name, getattr(options, name, getattr(request, name)))
    request.keep = check_name(options.keep) if getattr(options, "keep", "") else ""
    request.mounts = [Mount.parse(text) for text in getattr(options, "mount", [])]
    given = getattr(options, "permissions", None) or []
    manifests = given if isinstance(given, list) else [given]
    for path in manifests:
        if path.exists() or not written:
            request.more_permissions.append(read_permissions(path))
    if len(request.more_permissions) == 1:
        request.permissions = request.more_permissions.pop()
    request.wanted, request.wanted_npm = read_wishes(options.more_packages, "--with")
    request.lock = request.lock or lock_of(manifests)
    most = getattr(options, "max_permissions", None)
    request.most = read_permissions(most) if most is not None else None
    read_limits(request.limits)  # before any work: a limit that makes no sense
    return request
