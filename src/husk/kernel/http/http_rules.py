"""kernel: the rules of `--allow-http` and headers of `--inject`: parsing, and verdicts on requests. Uses no sockets.

A RULE is `METHODS URL`, or `METHODS URL via ADDRESS`. METHODS are separated by commas; `*` is every method. In the path
`*` stands for anything within one segment and `**` for anything at all. Without a path everything on that host is
meant. `via` names the private address or network that the host's name may lead to.

A path is judged as it stands, and as servers may read it: with percent-escapes undone, once and again. All readings
must fit the same rule. A path with dot segments, empty segments or backslashes in any reading fits only a rule for
everything: servers disagree on what such a path means.
"""

from __future__ import annotations

from husk.kernel.net.network_rules import RuleError, parse_ip
from husk.kernel.net.network_rules import parse as parse_net
from husk.kernel.net.special_ranges import Net

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

EVERYTHING = "/**"
DEFAULT_PORTS = {"http": 80, "https": 443}
TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
NEVER = frozenset(("CONNECT", "TRACE"))  # the first is no request for a path; the second sends headers back
PLAIN = frozenset("/.-_~%@:+,=0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
MOST_DECODINGS = 4
SHORTEST_SECRET = 8
# Headers that husk writes itself, or that say where a message ends.
OWN_HEADERS = frozenset(("host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade"))


class HttpRule:
    __slots__ = ("host", "methods", "path", "port", "scheme", "text", "via")

    def __init__(
        self, text: str, methods: frozenset[str], scheme: str, host: str, port: int, path: str, via: Net | None
    ) -> None:
        self.text, self.methods, self.scheme, self.host, self.port = text, methods, scheme, host, port
        self.path, self.via = path, via

    def is_open(self) -> bool:
        return "*" in self.methods and self.path == EVERYTHING

    def fits(self, method: str, readings: list[str] | None) -> bool:
        """`readings` None: the path is read differently by different servers."""
        if method in NEVER or not ("*" in self.methods or method in self.methods):
            return False
        if self.path == EVERYTHING:
            return True
        return readings is not None and all(matches(self.path, each) for each in readings)


class Inject:
    """A header that husk adds to requests. `template` names the secrets; their values are nowhere but in `value`."""

    __slots__ = ("header", "origin", "secrets", "template", "value")

    def __init__(self, origin: str, header: str, template: str, value: str, secrets: tuple[bytes, ...]) -> None:
        self.origin, self.header, self.template, self.value, self.secrets = origin, header, template, value, secrets


class Service:
    """One host that the box reaches through husk. Inside it is called http://`host`:`inside`."""

    __slots__ = ("host", "inject", "inside", "port", "rules", "scheme", "vias")

    def __init__(self, scheme: str, host: str, port: int) -> None:
        self.scheme, self.host, self.port = scheme, host, port
        self.inside = 80 if port == DEFAULT_PORTS[scheme] else port
        self.rules: list[HttpRule] = []
        self.inject: list[Inject] = []
        self.vias: list[Net] = []

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}")

    @property
    def authority(self) -> str:
        return self.origin.partition("://")[2]

    @property
    def secrets(self) -> list[bytes]:
        return [secret for each in self.inject for secret in each.secrets]

    def answers_to(self, given: str, inside: int) -> bool:
        """Is this what a client writes into Host for it?"""
        name, given_port = split_authority(given)
        return name.rstrip(".") == self.host and (given_port or 80) == inside == self.inside

    def refusal(self, method: str, path: str) -> tuple[str, str] | None:
        """Why a request may not pass, and what would allow it; None: it may."""
        understood = readings(path)
        if any(rule.fits(method, understood) for rule in self.rules):
            return None
        if understood is None:
            return "servers read such a path differently, and no --allow-http rule covers the whole host", ""
        # The path is a stranger's text, and the remedy is pasted into a shell.
        plain = method not in NEVER and method.isalpha() and set(path) <= PLAIN
        return "no --allow-http rule covers it", f"--allow-http '{method} {self.origin}{path}'" if plain else ""


def parse(text: str) -> HttpRule:
    words = text.split()
    if not (len(words) == 2 or (len(words) == 4 and words[2] == "via")):
        raise RuleError(f"{text!r}: write METHODS URL, such as 'GET,HEAD https://api.example.com/v1/*'.")
    methods = frozenset(words[0].split(","))
    if not all(each and set(each.encode()) <= TOKEN and each == each.upper() for each in methods):
        raise RuleError(f"{text!r}: methods are words in capitals, such as GET or GET,POST, or * for all.")
    if methods & NEVER:
        raise RuleError(f"{text!r}: {sorted(methods & NEVER)[0]} is never let through; leave it out.")
    scheme, host, port, path = read_url(text, words[1])
    via = None
    if len(words) == 4:
        via = parse_net(words[3]).net
        if via is None or parse_net(words[3]).ports != (0, 65535):
            raise RuleError(f"{text!r}: after via stands the address or the network that the name may lead to.")
    return HttpRule(text, methods, scheme, host, port, path or EVERYTHING, via)


def read_url(text: str, url: str) -> tuple[str, str, int, str]:
    scheme, colon, rest = url.partition("://")
    if not colon or scheme not in DEFAULT_PORTS:
        raise RuleError(f"{text!r}: the URL begins with http:// or https://.")
    authority, slash, path = rest.partition("/")
    if "@" in authority or any(mark in url for mark in "?#"):
        raise RuleError(f"{text!r}: the URL has a host, perhaps a port and a path; no user, no ? and no #.")
    if not url.isascii() or not url.isprintable():
        raise RuleError(f"{text!r}: write the URL in ASCII.")
    host, port = split_authority(authority)
    ip = parse_ip(host)
    rule = parse_net(f"[{host}]" if ":" in host else host)
    if (ip is None and (not rule.name or rule.below or "*" in host)) or not 0 <= port < 65536:
        raise RuleError(f"{text!r}: name one host there; * stands for a part of the path only.")
    return scheme, host if ip is not None else rule.name, port or DEFAULT_PORTS[scheme], slash + path


def split_authority(text: str) -> tuple[str, int]:
    """Host in lower case, and port; 0 for none, -1 for what is no port."""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        if port and not port.startswith(":"):
            return "", -1
        port = port[1:]
    else:
        host, _, port = text.partition(":")
    number = int(port) if port.isascii() and port.isdigit() and len(port) < 6 else -1 if port else 0
    return host.lower(), number


def services(texts: list[str], injected: list[Inject]) -> list[Service]:
    """One for each host of the rules, with its headers."""
    found: dict[tuple[str, int], Service] = {}
    for rule in [parse(text) for text in texts]:
        made = Service(rule.scheme, rule.host, rule.port)
        service = found.setdefault((made.host, made.inside), made)
        if service.origin != made.origin:
            raise RuleError(f"{rule.text!r}: inside, {service.origin} has that place already; leave one of them out.")
        service.rules.append(rule)
        if rule.via is not None:
            service.vias.append(rule.via)
    for header in injected:
        fitting = [each for each in found.values() if each.origin == header.origin]
        if not fitting:
            raise RuleError(f"{header.origin}: say which requests go there, too: --allow-http 'GET {header.origin}'.")
        if fitting[0].scheme != "https" and not _stays_here(fitting[0]):
            raise RuleError(f"{header.origin}: a secret goes over https:// only, or to a loopback address.")
        fitting[0].inject.append(header)
    return list(found.values())


def _stays_here(service: Service) -> bool:
    ip = parse_ip(service.host)
    return ip is not None and (ip[0] == 127 if len(ip) == 4 else ip == bytes(15) + b"\1")


def parse_inject(text: str, secret: Callable[[str], str]) -> Inject:
    """`ORIGIN HEADER: TEMPLATE`; `secret` gives the value of what stands in braces, or raises RuleError."""
    url, _, rest = text.strip().partition(" ")
    header, colon, template = rest.partition(":")
    header, template = header.strip(), template.strip()
    if not colon or not header or not set(header.encode()) <= TOKEN or "_" in header or header.lower() in OWN_HEADERS:
        raise RuleError(f"{text!r}: write URL HEADER: TEXT, such as 'https://api.example.com X-Api-Key: {{API_KEY}}'.")
    scheme, host, port, path = read_url(text, url)
    if path not in ("", "/"):
        raise RuleError(f"{text!r}: a header goes with every request to a host; leave the path out.")
    secrets: list[bytes] = []
    value, rest = "", template
    while "{" in rest:
        before, _, inner = rest.partition("{")
        name, brace, rest = inner.partition("}")
        if not brace or not name:
            raise RuleError(f"{text!r}: in braces stands a variable: {{TOKEN}}, {{file:PATH}} or {{base64:TOKEN}}.")
        found = secret(name)
        if len(found) < SHORTEST_SECRET:
            raise RuleError(f"{{{name}}} is empty or too short for a secret ({SHORTEST_SECRET} characters at least).")
        value += before + found
        secrets.append(found.encode())
        while name.startswith("base64:"):  # a host may send back what it was told, or what that means
            name = name.removeprefix("base64:")
            secrets.append(secret(name).encode())
    value += rest
    if not secrets:
        raise RuleError(f"{text!r}: it names no secret; write the variable that has it in braces, as {{TOKEN}}.")
    if not value.isascii() or not value.isprintable():
        raise RuleError(f"{header} for {url}: the secret holds a line break, or characters that no header may have.")
    return Inject(Service(scheme, host, port).origin, header, template, value, tuple(secrets))


# -- paths -------------------------------------------------------------------------------------------------------------


def readings(path: str) -> list[str] | None:
    """The path, and what is left when escapes are undone once and more; None where servers may differ on it."""
    found = [path]
    while True:
        segments = found[-1].split("/")[1:]
        names = [each.partition(";")[0] for each in segments]  # some servers take `..;x` for `..`
        if any(name in (".", "..") for name in names) or "" in names[:-1] or "\\" in found[-1] or "\0" in found[-1]:
            return None
        plain = undo_escapes(found[-1])
        if plain == found[-1]:
            return found
        if len(found) > MOST_DECODINGS:
            return None
        found.append(plain)


def undo_escapes(text: str) -> str:
    first, *rest = text.split("%")
    done = [first]
    for piece in rest:
        try:
            if piece[:2].isalnum() and piece.isascii():
                done.append(chr(int(piece[:2], 16)) + piece[2:])
                continue
        except ValueError:
            pass
        done.append("%" + piece)
    return "".join(done)


def matches(pattern: str, text: str) -> bool:
    """`*` is anything but a slash, `**` anything. All ways are followed at once, so no text takes long."""
    marks = _marks(pattern)
    at = _behind_stars({0}, marks)
    for letter in text:
        after = set()
        for place in at:
            if place == len(marks):
                continue
            mark = marks[place]
            if mark == "**" or (mark == "*" and letter != "/"):
                after.add(place)
            elif mark == letter:
                after.add(place + 1)
        at = _behind_stars(after, marks)
        if not at:
            return False
    return len(marks) in at


def _marks(pattern: str) -> list[str]:
    found: list[str] = []
    for letter in pattern:
        if letter == "*" and found and found[-1] == "*":
            found[-1] = "**"
        elif not (letter == "*" and found and found[-1] == "**"):
            found.append(letter)
    return found


def _behind_stars(places: set[int], marks: list[str]) -> set[int]:
    found = set(places)
    for place in sorted(places):
        while place < len(marks) and marks[place] in ("*", "**"):
            place += 1
            found.add(place)
    return found
