"""skills: tables: which hosts well-known programs and packages go to, and which programs packages start."""

from __future__ import annotations

_NPM = "registry.npmjs.org"
_PYPI = "pypi.org files.pythonhosted.org"
_GITHUB = "api.github.com github.com"
_CRATES = "index.crates.io static.crates.io"
_GO = "proxy.golang.org sum.golang.org"
_DOCKER = "registry-1.docker.io auth.docker.io production.cloudflare.docker.com"
_HUGGING = "huggingface.co"
# (program, its sub-commands that go out or "" for all, hosts). Programs whose host is their argument are not here.
PROGRAM_HOSTS: tuple[tuple[str, str, str], ...] = (
    ("npm", "install i ci add update audit view info publish exec x init create outdated pack search", _NPM),
    ("npx", "", _NPM),
    ("pnpm", "install i add update dlx create", _NPM),
    ("pnpx", "", _NPM),
    ("yarn", "install add upgrade dlx create", "registry.yarnpkg.com"),
    ("bun", "install i add update x create", _NPM),
    ("bunx", "", _NPM),
    ("pip", "install download index search wheel", _PYPI),
    ("pip3", "install download index search wheel", _PYPI),
    ("pipx", "install run upgrade inject", _PYPI),
    ("uv", "add sync lock pip run tool", _PYPI),
    ("uvx", "", _PYPI),
    ("poetry", "install add update lock", _PYPI),
    ("gh", "", _GITHUB),
    ("cargo", "install add update fetch build run test publish search", _CRATES),
    ("go", "get install mod run", _GO),
    ("gem", "install update fetch search", "rubygems.org"),
    ("bundle", "install update", "rubygems.org"),
    ("composer", "install require update", "repo.packagist.org"),
    ("docker", "pull push build login search", _DOCKER),
    ("podman", "pull push build login search", _DOCKER),
    ("brew", "install upgrade update tap", "formulae.brew.sh ghcr.io"),
    ("huggingface-cli", "", _HUGGING),
    ("hf", "", _HUGGING),
    ("vercel", "", "api.vercel.com"),
    ("netlify", "", "api.netlify.com"),
    ("wrangler", "", "api.cloudflare.com"),
    ("supabase", "", "api.supabase.com"),
    ("stripe", "", "api.stripe.com"),
    ("heroku", "", "api.heroku.com"),
    ("terraform", "init get providers", "registry.terraform.io releases.hashicorp.com"),
    ("playwright", "install", "cdn.playwright.dev"),
    ("conda", "install create update search", "conda.anaconda.org repo.anaconda.com"),
    ("mamba", "install create update search", "conda.anaconda.org"),
    ("claude", "", "api.anthropic.com"),
)
# Programs that go to the hosts in their arguments.
_TAKING = (
    "curl wget http https xh aria2c git ssh scp sftp rsync nc ncat netcat ftp lftp telnet yt-dlp youtube-dl lynx w3m "
    "links websocat wscat grpcurl ab hey wrk dig nslookup host ping traceroute openssl docker podman psql mysql "
    "redis-cli mongosh mongo kubectl helm skopeo oras svn hg gh glab httpie newman k6 lighthouse pa11y axe nikto nmap "
    "sqlmap ffmpeg ffprobe mpv streamlink gallery-dl pip pip3 npm npx uv go cargo apt-key"
)
TAKING_HOSTS = frozenset(_TAKING.split())
# Those of them whose arguments are host names without a scheme.
_BARE = "ssh scp sftp rsync nc ncat netcat ftp telnet dig nslookup host ping traceroute openssl nmap"
BARE_HOSTS = frozenset(_BARE.split())

# distribution or npm package: hosts that its own code names
PACKAGE_HOSTS: dict[str, str] = {
    "anthropic": "api.anthropic.com",
    "@anthropic-ai/sdk": "api.anthropic.com",
    "cohere": "api.cohere.com",
    "deepl": "api.deepl.com",
    "discord-py": "discord.com",
    "elevenlabs": "api.elevenlabs.io",
    "firecrawl-py": "api.firecrawl.dev",
    "google-genai": "generativelanguage.googleapis.com",
    "google-generativeai": "generativelanguage.googleapis.com",
    "@google/genai": "generativelanguage.googleapis.com",
    "groq": "api.groq.com",
    "huggingface-hub": "huggingface.co",
    "mistralai": "api.mistral.ai",
    "notion-client": "api.notion.com",
    "@notionhq/client": "api.notion.com",
    "openai": "api.openai.com",
    "pygithub": "api.github.com",
    "@octokit/rest": "api.github.com",
    "replicate": "api.replicate.com",
    "resend": "api.resend.com",
    "sendgrid": "api.sendgrid.com",
    "slack-sdk": "slack.com",
    "@slack/web-api": "slack.com",
    "stripe": "api.stripe.com",
    "tavily-python": "api.tavily.com",
    "tweepy": "api.twitter.com",
    "twilio": "api.twilio.com",
    "wikipedia": "en.wikipedia.org",
    "yfinance": "query1.finance.yahoo.com query2.finance.yahoo.com",
}
# distribution or npm package: programs that it starts
PACKAGE_PROGRAMS: dict[str, str] = {
    "camelot-py": "gs",
    "docx2txt": "",
    "ffmpeg-python": "ffmpeg ffprobe",
    "fluent-ffmpeg": "ffmpeg ffprobe",
    "ghostscript": "gs",
    "gitpython": "git",
    "graphviz": "dot",
    "imgkit": "wkhtmltoimage",
    "moviepy": "ffmpeg",
    "nbconvert": "pandoc",
    "ocrmypdf": "tesseract gs",
    "openai-whisper": "ffmpeg",
    "pdf2image": "pdftoppm pdfinfo",
    "pdfkit": "wkhtmltopdf",
    "pydot": "dot",
    "pydub": "ffmpeg ffprobe",
    "pygraphviz": "dot",
    "pyexiftool": "exiftool",
    "pypandoc": "pandoc",
    "pytesseract": "tesseract",
    "pyttsx3": "espeak",
    "selenium": "chromedriver",
    "simple-git": "git",
    "speechrecognition": "flac",
    "tabula-py": "java",
    "unoserver": "soffice",
    "weasyprint": "",
    "yt-dlp": "ffmpeg",
}
# Hosts that name vocabularies, licences and standards: nothing is fetched from them.
_NAMES = (
    "www.w3.org w3.org schemas.openxmlformats.org schemas.microsoft.com purl.org purl.oclc.org ns.adobe.com xmlns.com "
    "schema.org www.schema.org json-schema.org tempuri.org schemas.xmlsoap.org docs.oasis-open.org www.topografix.com "
    "www.opengis.net www.sitemaps.org sitemaps.org xml.apache.org java.sun.com jcp.org xmlns.jcp.org specs.openid.net "
    "openoffice.org libreoffice.org relaxng.org www.apache.org apache.org opensource.org www.gnu.org gnu.org "
    "creativecommons.org spdx.org ogp.me www.omg.org www.iana.org www.rfc-editor.org tools.ietf.org semver.org "
    "datatracker.ietf.org inkscape.sourceforge.net sodipodi.sourceforge.net www.inkscape.org keepachangelog.com"
)
VOCABULARIES = frozenset(_NAMES.split())
EXAMPLES = ("example.com", "example.org", "example.net", ".example", ".test", ".invalid")


def program_hosts(words: list[str]) -> list[str]:
    """The hosts that this command is known to go to."""
    found: list[str] = []
    name, rest = words[0], words[1:]
    if name.startswith("python") and rest[:2] == ["-m", "pip"]:
        name, rest = "pip", rest[2:]
    action = next((word for word in rest if not word.startswith("-")), "")
    for program, actions, hosts in PROGRAM_HOSTS:
        if program == name and (not actions or action in actions.split()):
            found += hosts.split()
    return found


def is_example(host: str) -> bool:
    name = host.partition(":")[0]
    return any(name == end.lstrip(".") or name.endswith(f".{end.lstrip('.')}") for end in EXAMPLES)


def mention(host: str) -> str:
    """Why a host in a text is only a name; empty: nothing says so."""
    if host.partition(":")[0] in VOCABULARIES:
        return "the name of a vocabulary or licence"
    return "reserved for examples" if is_example(host) else ""
