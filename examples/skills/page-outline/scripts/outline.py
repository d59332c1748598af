# /// script
# requires-python = ">=3.9"
# dependencies = ["lxml"]
# ///
"""Outline of an HTML page."""

import sys

from lxml import html

page = html.parse(sys.argv[1]).getroot()
for heading in page.xpath("//h1|//h2|//h3"):
    print("  " * (int(heading.tag[1]) - 1) + heading.text_content().strip())
for image in page.xpath("//img[not(@alt)]"):
    print(f"image without text: {image.get('src')}")
for link in page.xpath("//a[not(normalize-space())]"):
    print(f"link without text: {link.get('href')}")
