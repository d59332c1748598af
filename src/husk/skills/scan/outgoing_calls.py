"""skills: tables: which calls of Python go out to a host, start a program, or only print."""

from __future__ import annotations

import re

_ROOTS = (
    "requests httpx urllib.request urllib3 aiohttp http.client websocket websockets socket ftplib smtplib imaplib "
    "poplib paramiko feedparser pycurl grpc elasticsearch pymongo psycopg psycopg2 redis gql zeep newspaper "
    "trafilatura yt_dlp wget gdown playwright selenium pyppeteer cloudscraper requests_html mechanize litellm "
    "openai anthropic groq cohere langchain_openai httplib2 xmlrpc.client pycouchdb sqlalchemy.create_engine "
    "asyncpg mysql.connector fastmcp.Client mcp.client qdrant_client weaviate pinecone web3 ccxt boto3 hvac jira "
    "atlassian github gitlab notion_client slack_sdk kubernetes git.Repo.clone_from pandas.read_csv "
    "pandas.read_json pandas.read_html pandas.read_excel pandas.read_parquet datasets.load_dataset urllib.urlopen "
    "urllib2 SPARQLWrapper owslib tweepy praw googleapiclient firecrawl curl_cffi niquests"
)
ROOTS = frozenset(_ROOTS.split())  # modules and functions
BARE = frozenset(("socket", "http.client", "smtplib", "ftplib", "imaplib", "paramiko"))  # take a host without a scheme
# Methods that go out whatever they are called on, and those that do if the object's name says so.
OUTGOING = frozenset(("urlopen", "urlretrieve", "goto", "ws_connect", "fetch_url", "clone_from"))
_METHODS = "get post put patch delete head options request stream connect send fetch open navigate"
METHODS = frozenset(_METHODS.split())
RECEIVER = re.compile(r"session|client|http|\bapi\b|browser|\bpage\b|driver|conn|opener|requests|\bws\b", re.I)
_KEYWORDS = "url base_url api_base endpoint endpoint_url server_url host hostname api_url baseurl uri"
KEYWORDS = frozenset(_KEYWORDS.split())
NAMED = re.compile(r"(?:[A-Z0-9_]*_)?(?:URL|URLS|URI|ENDPOINT|ENDPOINTS|BASE|HOST|API|API_BASE|SERVER)")
PRINTING = re.compile(
    r"(?:.*\.)?(?:print|echo|secho|write|debug|info|warning|warn|error|critical|exception|log|exit|rule)"
)
HELPING = frozenset(("help", "description", "epilog", "usage", "metavar", "title"))

_SUBPROCESS = "run Popen call check_call check_output getoutput getstatusoutput"
SHELLED = frozenset(
    ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "asyncio.create_subprocess_shell")
)
ASKING = frozenset(("shutil.which", "distutils.spawn.find_executable"))  # given a program's name
SPREAD = frozenset(("asyncio.create_subprocess_exec", "os.execlp", "os.execl", "os.spawnlp"))  # words as arguments
SECOND = frozenset(("os.execvp", "os.execv", "os.execvpe", "os.posix_spawn", "os.posix_spawnp"))  # words come second
RUNNERS = SHELLED | ASKING | SPREAD | SECOND | {f"subprocess.{name}" for name in _SUBPROCESS.split()}
RUNNERS |= {"pexpect.spawn", "pexpect.run"}


def root_of(name: str) -> str:
    """The module or function in ROOTS that a dotted name begins with; empty: none."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        if (root := ".".join(parts[:count])) in ROOTS:
            return root
    return ""
