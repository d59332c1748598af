"""skills: tables of names: the distribution of a Python module, the Debian package of a program, node's built-ins."""

from __future__ import annotations

import re
import sys

# module: distribution, where they differ. Only well-known ones: a wrong guess would fetch an unrelated package.
DISTRIBUTIONS = {
    "Bio": "biopython",
    "Crypto": "pycryptodome",
    "Levenshtein": "python-Levenshtein",
    "OpenSSL": "pyOpenSSL",
    "PIL": "Pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cairosvg": "CairoSVG",
    "camelot": "camelot-py",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "discord": "discord.py",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "exiftool": "PyExifTool",
    "ffmpeg": "ffmpeg-python",
    "firecrawl": "firecrawl-py",
    "fitz": "PyMuPDF",
    "git": "GitPython",
    "github": "PyGithub",
    "google.auth": "google-auth",
    "google.genai": "google-genai",
    "google.generativeai": "google-generativeai",
    "google.oauth2": "google-auth",
    "google_auth_oauthlib": "google-auth-oauthlib",
    "googleapiclient": "google-api-python-client",
    "jose": "python-jose",
    "jwt": "PyJWT",
    "magic": "python-magic",
    "markdown": "Markdown",
    "mpl_toolkits": "matplotlib",
    "nacl": "PyNaCl",
    "pdfminer": "pdfminer.six",
    "pkg_resources": "setuptools",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "pymupdf": "PyMuPDF",
    "ruamel.yaml": "ruamel.yaml",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slugify": "python-slugify",
    "speech_recognition": "SpeechRecognition",
    "tabula": "tabula-py",
    "tavily": "tavily-python",
    "telegram": "python-telegram-bot",
    "usb": "pyusb",
    "websocket": "websocket-client",
    "whisper": "openai-whisper",
    "win32com": "pywin32",
    "xlsxwriter": "XlsxWriter",
    "yaml": "PyYAML",
    "zmq": "pyzmq",
}
# Namespaces of many distributions: how many parts of a module say which.
NAMESPACES = {"azure": 2, "google": 2, "google.cloud": 3, "ruamel": 2}
# program: Debian package, where they differ or matter
DEBIAN = {
    "chromium": "chromium",
    "convert": "imagemagick",
    "dot": "graphviz",
    "exiftool": "libimage-exiftool-perl",
    "ffmpeg": "ffmpeg",
    "ffprobe": "ffmpeg",
    "gs": "ghostscript",
    "libreoffice": "libreoffice-writer",
    "magick": "imagemagick",
    "node": "nodejs",
    "npm": "npm",
    "pdfinfo": "poppler-utils",
    "pdfimages": "poppler-utils",
    "pdftoppm": "poppler-utils",
    "pdftotext": "poppler-utils",
    "qpdf": "qpdf",
    "rg": "ripgrep",
    "soffice": "libreoffice-writer",
    "sqlite3": "sqlite3",
    "tesseract": "tesseract-ocr",
}
_NODE = (
    "assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns domain "
    "events fs http http2 https inspector module net os path perf_hooks process punycode querystring readline repl sea "
    "sqlite stream string_decoder sys test timers tls trace_events tty url util v8 vm wasi worker_threads zlib"
)
NODE_BUILTIN = frozenset(_NODE.split())
REQUIREMENT = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"  # name
    r"(?:\[[A-Za-z0-9._, -]*\])?"  # extras
    r"(?:\s*(?:[<>=!~]=?=?\s*[A-Za-z0-9.*+!_-]+)(?:\s*,\s*[<>=!~]=?=?\s*[A-Za-z0-9.*+!_-]+)*)?"  # versions
    r"(?:\s*;[^\n]*)?"  # marker
)
NPM = re.compile(r"(?:@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*", re.I)


def is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def distribution_of(module: str) -> str:
    """The distribution of a module; most have the module's name."""
    if module not in DISTRIBUTIONS and module.partition(".")[0] in NAMESPACES:
        return module.replace(".", "-")
    return DISTRIBUTIONS.get(module) or DISTRIBUTIONS.get(module.partition(".")[0]) or module.partition(".")[0]


def distribution_key(name: str) -> str:
    """The normal form for comparing: case does not count, and `-`, `_` and `.` are equal."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;]", name.strip(), maxsplit=1)[0]).lower()


def is_requirement(text: str) -> bool:
    """Is it a plain name with versions? Options, paths and URLs are refused: pip would read or fetch what they name."""
    return REQUIREMENT.fullmatch(text.strip()) is not None
