"""sandbox: the rules every mount has unless they are lifted: a table of verb, pattern and reason.

Chosen so that ordinary work goes on. *Hidden* is what programs look for by themselves and do without: credentials.
*Denied* is what a program wants by name, and should be told about. *Protected* is what the host runs, or takes orders
from, without being asked again. Names that only a home gives their meaning begin with `~/`.

Rules for projects (denied and protected names that hold anywhere) except what the guest itself made in this run, in a
directory that it made: `git clone`, `git init` and `npm install` bring such names along. `husk rules` lists the table.
"""

from __future__ import annotations

from husk.sandbox.rules.path_rule import PathRule

_KEYS = "keys and passwords"
_CLOUD = "credentials of a cloud or cluster"
_PACKAGES = "tokens of a package registry"
_BROWSER = "a browser's passwords and cookies"
_HISTORY = "what was typed, passwords included"
_AGENT_KEYS = "an agent's own credentials"

HIDDEN = (
    (_KEYS, ".ssh", ".gnupg", ".netrc", "_netrc", ".password-store", ".pgpass", ".my.cnf", ".git-credentials",
     "**/.config/git/credentials", "**/.local/share/keyrings", "**/.config/op", "**/.config/sops/age", "~/.age"),
    (_CLOUD, ".aws", ".azure", ".kube", ".oci", ".boto", ".s3cfg", ".vault-token", "**/.config/gcloud",
     "**/.config/gh", "**/.config/hub", "**/.config/glab-cli", "**/.config/doctl", "**/.config/rclone",
     "**/.docker/config.json", "**/.config/containers/auth.json", "**/.terraform.d/credentials.tfrc.json"),
    (_PACKAGES, "~/.npmrc", "~/.yarnrc.yml", ".pypirc", "~/.cargo/credentials", "~/.cargo/credentials.toml",
     "~/.gem/credentials", "~/.m2/settings.xml", "~/.gradle/gradle.properties", "~/.composer/auth.json",
     "~/.config/composer/auth.json", "~/.nuget/NuGet/NuGet.Config"),
    (_BROWSER, ".mozilla", ".thunderbird", "**/.config/google-chrome", "**/.config/chromium",
     "**/.config/BraveSoftware", "**/.config/microsoft-edge", "**/.config/vivaldi", "**/.config/opera",
     "~/snap/firefox", "~/snap/chromium"),
    (_AGENT_KEYS, "**/.claude/.credentials.json", "**/.codex/auth.json", "**/.gemini/oauth_creds.json",
     "~/.claude.json", "**/.local/share/opencode/auth.json"),
    (_HISTORY, "~/.*_history", "~/.lesshst", "~/.viminfo"),
)  # fmt: skip
# A directory .env is a virtual environment of Python's; one called head is anything.
FILES_ONLY = (".env", ".env.*", "HEAD")
DENIED = (("passwords and tokens of a project", ".env", ".env.*"),)
ALLOWED = (
    ("an example of .env, without secrets", ".env.example", ".env.sample", ".env.template", ".env.dist",
     ".env.defaults", ".env.schema"),
    ("git's own", "**/.git/**/HEAD"),
)  # fmt: skip
_SHELL = "a shell runs it when it starts"
_SESSION = "started with the session"
_GIT = "git takes programs to run from it"
_EDITOR = "an editor takes programs to run from it"
_AGENT = "an agent takes orders from it"
PROTECTED = (
    (_SHELL, "~/.bashrc", "~/.bash_profile", "~/.bash_login", "~/.bash_logout", "~/.bash_aliases", "~/.bashrc.d",
     "~/.profile", "~/.zshrc", "~/.zshenv", "~/.zprofile", "~/.zlogin", "~/.zlogout", "~/.oh-my-zsh", "~/.kshrc",
     "~/.mkshrc", "~/.cshrc", "~/.tcshrc", "~/.login", "~/.inputrc", "~/.config/fish", "~/.config/nushell", ".envrc"),
    (_SESSION, "~/.xprofile", "~/.xinitrc", "~/.xsession", "~/.xsessionrc", "~/.pam_environment",
     "~/.config/autostart", "~/.config/systemd", "~/.config/environment.d", "~/.local/share/systemd"),
    (_GIT, "~/.gitconfig", "~/.config/git", "**/.git/config", "**/.git/config.worktree", "**/.git/modules/**/config",
     "**/.git/worktrees/*/config.worktree"),
    ("git takes its configuration and hooks from the directory that it names", "**/.git/commondir",
     "**/.git/modules/**/commondir", "**/.git/worktrees/*/commondir"),
    ("with it a directory can be a repository, whose configuration git obeys", "HEAD"),
    ("git runs these programs", "**/.git/hooks", "**/.git/modules/**/hooks"),
    ("Mercurial takes programs to run from it", "**/.hg/hgrc", "**/.hg/sharedpath"),
    (_EDITOR, ".vscode", ".idea", ".devcontainer", ".devcontainer.json", "~/.vimrc", "~/.vim", "~/.config/nvim",
     "~/.emacs", "~/.emacs.d", "~/.config/emacs", "~/.tmux.conf", "~/.config/tmux"),
    (_AGENT, ".claude", ".codex", ".cursor", ".gemini", ".windsurf", ".continue", ".opencode", ".mcp.json",
     ".aider.conf.yml"),
    ("what husk allows its clients", "~/.config/husk"),
)  # fmt: skip


_made: list[PathRule] = []


def default_rules() -> list[PathRule]:
    if not _made:
        _made.extend(_make())
    return list(_made)


def prepare() -> None:
    """For a process that others are forked from: they find ready what every mount wants to know of the rules."""
    for rule in default_rules():
        assert rule.said and rule.named is not None


def _make() -> list[PathRule]:
    tables = (("hide", HIDDEN), ("deny", DENIED), ("allow", ALLOWED), ("protect", PROTECTED))
    return [
        PathRule(
            verb,
            pattern,
            own=table in (DENIED, PROTECTED) and not pattern.startswith("~/"),
            files=pattern in FILES_ONLY,
            default=True,
            why=why,
        )
        for verb, table in tables
        for why, *patterns in table
        for pattern in patterns
    ]
