"""Follows the links of a site and prints the broken ones."""

import html.parser
import sys
import urllib.error
import urllib.parse
import urllib.request


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


start = sys.argv[1]
seen, waiting, broken = {start}, [start], 0
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
while waiting:
    page = waiting.pop(0)
    name = urllib.parse.urlsplit(page).path
    try:
        with opener.open(page, timeout=20) as answer:
            text = answer.read().decode()
            kind = answer.headers.get_content_type()
    except urllib.error.HTTPError as error:
        print(f"{name}: {error.code}")
        broken += 1
        continue
    if kind == "text/html":
        parser = Links()
        parser.feed(text)
        for link in parser.found:
            target = urllib.parse.urldefrag(urllib.parse.urljoin(page, link))[0]
            if target not in seen and urllib.parse.urlsplit(target).netloc == urllib.parse.urlsplit(start).netloc:
                seen.add(target)
                waiting.append(target)
print(f"{len(seen)} pages, {broken} broken")
sys.exit(1 if broken else 0)
