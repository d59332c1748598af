"""`--allow-http` and `--inject`: what rules cover, which paths are too ambiguous to judge, what cannot be written."""

from __future__ import annotations

import pytest

from husk.kernel.http.http_rules import (
    Inject,
    Service,
    matches,
    parse,
    parse_inject,
    readings,
    services,
    split_authority,
)
from husk.kernel.net.network_rules import RuleError

SECRETS = {"TOKEN": "s3cret-value", "SHORT": "abc", "LINES": "first-line\r\nX-Other: 1"}


def service(*texts: str) -> Service:
    (made,) = services(list(texts), [])
    return made


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("/a/*", "/a/b", True),
        ("/a/*", "/a/", True),
        ("/a/*", "/a", False),
        ("/a/*", "/a/b/c", False),
        ("/a/**", "/a/b/c", True),
        ("/a/*/c", "/a/b/c", True),
        ("/a/*/c", "/a/b/b/c", False),
        ("/a/**/c", "/a/b/b/c", True),
        ("/v*/x.json", "/v12/x.json", True),
        ("/v*/x.json", "/v12/xyjson", False),
        ("/**", "/", True),
        ("/a", "/A", False),
    ],
)
def test_patterns(pattern: str, text: str, fits: bool) -> None:
    assert matches(pattern, text) is fits


def test_no_pattern_takes_long() -> None:
    assert not matches("/" + "**a" * 20 + "b", "/" + "a" * 8000)


@pytest.mark.parametrize(
    "path",
    ["/a/../b", "/a/%2e%2e/b", "/a/%2E./b", "/a/%252e%252e/b", "/a/..", "/a/./b", "/a//b", "/a%2f..%2fb", "/a/..%2fb",
     "/a/..;/b", "/a/..;x=1/b", "/a\\..\\b", "/a%5c..%5cb", "/a/%00", "/a%2f%2fb", "/%25252525252e"],
)  # fmt: skip
def test_an_ambiguous_path_fits_nothing_but_a_rule_for_everything(path: str) -> None:
    assert readings(path) is None
    refusal = service("GET https://h.example/a/**").refusal("GET", path)
    assert refusal is not None and refusal[1] == ""
    assert service("GET https://h.example").refusal("GET", path) is None


def test_every_reading_of_a_path_must_fit() -> None:
    narrow, wide = service("GET https://h.example/p/*/x"), service("GET https://h.example/p/**/x")
    assert narrow.refusal("GET", "/p/group%2Fname/x") is not None  # a server may see three segments
    assert wide.refusal("GET", "/p/group%2Fname/x") is None
    assert service("GET https://h.example/%61").refusal("GET", "/%61") is not None


def test_methods() -> None:
    made = service("GET,HEAD https://h.example/a", "* https://h.example/b")
    assert made.refusal("GET", "/a") is None and made.refusal("DELETE", "/b") is None
    assert made.refusal("POST", "/a") == (
        "no --allow-http rule covers it",
        "--allow-http 'POST https://h.example/a'",
    )
    for never in ("TRACE", "CONNECT"):
        assert made.refusal(never, "/b") is not None
    assert made.refusal("get", "/a") is not None


def test_a_remedy_holds_nothing_that_a_shell_would_read() -> None:
    refusal = service("GET https://h.example/a").refusal("GET", "/'$(reboot)'")
    assert refusal is not None and refusal[1] == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("https://h.example", "write METHODS URL"),
        ("GET h.example", "begins with http"),
        ("GET ftp://h.example", "begins with http"),
        ("get https://h.example", "capitals"),
        ("GET,TRACE https://h.example", "TRACE is never"),
        ("GET https://u:p@h.example/", "no user"),
        ("GET https://h.example/?a=1", "no user"),
        ("GET https://*.example/", "name one host"),
        ("GET https://*/", "name one host"),
        ("GET https://h.example:0x50/", "name one host"),
        ("GET https://h.example via nowhere", "after via"),
        ("GET https://h.example on 10.0.0.1", "write METHODS URL"),
    ],
)
def test_what_is_no_rule(text: str, why: str) -> None:
    with pytest.raises(RuleError, match=why):
        parse(text)


def test_hosts_and_their_places_inside() -> None:
    https, odd, plain = services(["GET https://a.example", "GET https://b.example:8443", "GET http://c.example:81"], [])
    assert [each.inside for each in (https, odd, plain)] == [80, 8443, 81]
    assert [each.authority for each in (https, odd, plain)] == ["a.example", "b.example:8443", "c.example:81"]
    assert all(https.answers_to(name, 80) for name in ("A.Example", "a.example:80", "a.example."))
    assert not https.answers_to("a.example:443", 80) and not https.answers_to("a.example.evil", 80)
    assert not odd.answers_to("b.example", 8443) and odd.answers_to("b.example:8443", 8443)
    assert split_authority("[::1]:80") == ("::1", 80) and split_authority("h:99999x")[1] == -1
    with pytest.raises(RuleError, match="has that place already"):
        services(["GET https://a.example", "GET http://a.example"], [])


def secret(name: str) -> str:
    return SECRETS[name]


def inject(text: str) -> Inject:
    return parse_inject(text, secret)


def test_a_header_is_made_of_a_template() -> None:
    made = inject("https://a.example Authorization: Bearer {TOKEN}")
    assert (made.origin, made.header, made.value) == ("https://a.example", "Authorization", "Bearer s3cret-value")
    assert made.template == "Bearer {TOKEN}" and made.secrets == (b"s3cret-value",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("https://a.example Authorization: Bearer abc", "names no secret"),
        ("https://a.example Authorization", "write URL HEADER"),
        ("https://a.example Host: {TOKEN}", "write URL HEADER"),
        ("https://a.example Content-Length: {TOKEN}", "write URL HEADER"),
        ("https://a.example X_Key: {TOKEN}", "write URL HEADER"),
        ("https://a.example/path X-Key: {TOKEN}", "leave the path out"),
        ("https://a.example X-Key: {SHORT}", "too short"),
        ("https://a.example X-Key: {LINES}", "line break"),
        ("https://a.example X-Key: {TOKEN", "in braces"),
    ],
)
def test_what_is_no_header(text: str, why: str) -> None:
    with pytest.raises(RuleError, match=why) as raised:
        inject(text)
    assert "first-line" not in str(raised.value)


def test_a_secret_goes_to_hosts_with_rules_and_over_tls() -> None:
    with pytest.raises(RuleError, match="say which requests"):
        services(["GET https://b.example"], [inject("https://a.example X-Key: {TOKEN}")])
    with pytest.raises(RuleError, match="https:// only"):
        services(["GET http://a.example"], [inject("http://a.example X-Key: {TOKEN}")])
    assert services(["GET http://127.0.0.9:81"], [inject("http://127.0.0.9:81 X-Key: {TOKEN}")])[0].secrets


def test_a_secret_is_looked_for_as_it_is_sent_and_as_it_is() -> None:
    given = {"base64:TOKEN": "c2VjcmV0LXNlY3JldA==", "TOKEN": "secret-secret"}
    made = parse_inject("https://a.example X-Key: Basic {base64:TOKEN}", given.__getitem__)
    assert made.value == "Basic c2VjcmV0LXNlY3JldA=="
    assert set(made.secrets) == {b"secret-secret", b"c2VjcmV0LXNlY3JldA=="}
