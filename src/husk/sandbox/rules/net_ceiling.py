"""sandbox: does one network rule allow all that another would? For whoever bounds what others may ask for."""

from __future__ import annotations


def covers(given: str, rule: str) -> bool:
    """Does `given` allow all that `rule` would? When in doubt, no."""
    host, _, port = rule.rpartition(":") if ":" in rule and "]" not in rule else (rule, "", "")
    if given in (rule, host):
        return True
    domain, _, given_port = given.partition(":")
    if not domain.startswith("*.") or given_port not in ("", port):
        return False
    return host.removeprefix("*").endswith(domain[1:])


def covers_request(allowed: str, rule: str) -> bool:
    """Likewise for a rule of --allow-http: is its host reached with `allowed`?"""
    from husk.kernel.http.http_rules import parse as parse_request
    from husk.kernel.net.network_rules import RuleError

    try:
        asked = parse_request(rule)
    except RuleError:
        return True  # no box is made of it: its own error says more
    host = f"[{asked.host}]" if ":" in asked.host else asked.host
    return covers(allowed, f"{host}:{asked.port}")
