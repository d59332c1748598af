"""cli: completion scripts for bash, zsh and fish, from the option table. Static text, but for names of boxes, images,
profiles and the like: for those completing runs husk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from husk.cli.cmd_completion import Level
    from husk.cli.options import Option


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _names(level: Level) -> list[str]:
    return [name for option in level.options for name in option.names]


def _taking(level: Level) -> list[tuple[str, Option]]:
    return [(name, option) for option in level.options if option.metavar for name in option.names]


def _ask(kind: str) -> str:
    return f"$(husk completion --names {kind} 2>/dev/null)"


_BASH = """# husk completion for bash: eval "$(husk completion bash)"
_husk() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} path=husk words= i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            # A program of the box, and then whatever that one takes: names of files, most likely.
            ((i == COMP_CWORD - 1)) && mapfile -t COMPREPLY < <(compgen -c -- "$cur")
            return
        fi
        case "$path ${COMP_WORDS[i]}" in
            @PATHS@) path="$path ${COMP_WORDS[i]}" ;;
        esac
    done
    case "$path $prev" in
@VALUES@
    esac
    case "$path" in
@WORDS@
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
# Where nothing fits, names of files.
complete -o bashdefault -o default -F _husk husk
"""


def bash(levels: list[Level]) -> str:
    paths = " | ".join(_quoted(level.path) for level in levels[1:])
    values, words = [], []
    for level in levels:
        for name, option in _taking(level):
            offered = f'"{_ask(option.names_of)}"' if option.names_of else _quoted(" ".join(option.choices))
            act = f'mapfile -t COMPREPLY < <(compgen -W {offered} -- "$cur"); '
            act = act if option.choices or option.names_of else ""
            values.append(f"        {_quoted(f'{level.path} {name}')}) {act}return ;;")
        line = f"        {_quoted(level.path)}) "
        commands, names = " ".join(level.words), " ".join(_names(level))
        if commands:
            words.append(f"{line}words={_quoted(commands)}; [[ $cur == -* ]] && words={_quoted(names)} ;;")
        elif level.names_of:
            words.append(f'{line}[[ $cur == -* ]] && words={_quoted(names)} || words="{_ask(level.names_of)}" ;;')
        else:
            words.append(f"{line}[[ $cur == -* ]] && words={_quoted(names)} ;;")
    return _BASH.replace("@PATHS@", paths).replace("@VALUES@", "\n".join(values)).replace("@WORDS@", "\n".join(words))


_ZSH = """#compdef husk
# husk completion for zsh: eval "$(husk completion zsh)", or as a file called _husk in a directory of $fpath
_husk() {
    local path_=husk i
    local -a below options  # `commands` is zsh's own: every program there is
    for ((i = 2; i < CURRENT; i++)); do
        if [[ $words[i] == -- ]]; then
            shift i words
            ((CURRENT -= i))
            _normal
            return
        fi
        case "$path_ $words[i]" in
            @PATHS@) path_="$path_ $words[i]" ;;
        esac
    done
    case "$path_ $words[CURRENT - 1]" in
@VALUES@
    esac
    case "$path_" in
@WORDS@
    esac
    if [[ $words[CURRENT] == -* ]]; then
        _describe option options
    elif (( $#below )); then
        _describe command below
    else
        _files
    fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _husk "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
    compdef _husk husk
fi
"""


def zsh(levels: list[Level]) -> str:
    def described(names: dict[str, str]) -> str:
        return " ".join(_quoted(f"{name}:{text.replace(':', ' ')}") for name, text in names.items())

    values, words = [], []
    for level in levels:
        for name, option in _taking(level):
            act = "_files" if option.files else f"_message {_quoted(option.help or 'value')}"
            if option.choices:
                act = f"compadd -- {' '.join(map(_quoted, option.choices))}"
            elif option.names_of:
                act = f'compadd -S "" -- ${{(f)"{_ask(option.names_of)}"}}'
            values.append(f"        {_quoted(f'{level.path} {name}')}) {act}; return ;;")
        options = {name: option.help for option in level.options for name in option.names}
        below = described(level.words) or (f'${{(f)"{_ask(level.names_of)}"}}' if level.names_of else "")
        words.append(f"        {_quoted(level.path)}) below=({below}); options=({described(options)}) ;;")
    paths = " | ".join(f"({_quoted(level.path)})" for level in levels[1:])
    return (
        _ZSH.replace("@PATHS@", paths, 1)
        .replace("@VALUES@", "\n".join(values), 1)
        .replace("@WORDS@", "\n".join(words), 1)
    )


_FISH = """# husk completion for fish: husk completion fish > ~/.config/fish/completions/husk.fish
function __husk_at
    # Are the words so far, options left out, these ones? With `exactly`, and no others?
    set -l wanted $argv
    set -l exactly no
    if test "$argv[1]" = exactly
        set exactly yes
        set -e wanted[1]
    end
    set -l said
    for word in (commandline -opc)
        test "$word" = --; and return 1
        string match -q -- '-*' $word; or set -a said $word
    end
    test $exactly = yes; and test (count $said) -ne (count $wanted); and return 1
    test "$said[1..$(count $wanted)]" = "$wanted"
end
function __husk_program
    # What follows `--` is a program's command line, and completed as one.
    set -l said (commandline -opc)
    set -l at (contains -i -- -- $said)
    or return 1
    set -e said[1..$at]
    complete -C (string join ' ' -- (string escape -- $said) (commandline -ct))
end
complete -c husk -f -n 'contains -- -- (commandline -opc)' -a '(__husk_program)'
"""


def fish(levels: list[Level]) -> str:
    lines = []
    for level in levels:
        # Where commands follow, what belongs here belongs nowhere below.
        here = _quoted(f"__husk_at {'exactly ' if level.words else ''}{level.path}")
        for name, text in level.words.items():
            lines.append(f"complete -c husk -f -n {here} -a {_quoted(name)} -d {_quoted(text)}")
        if level.names_of and not level.words:
            lines.append(f"complete -c husk -f -n {here} -a '({_ask(level.names_of)[2:-1]})'")
        for option in level.options:
            spelled = ""
            for name in option.names:
                kind = "-l" if name.startswith("--") else "-s" if len(name) == 2 else "-o"
                spelled += f" {kind} {_quoted(name.lstrip('-'))}"
            value = " -r" if option.metavar else ""
            if option.choices:
                value += f" -f -a {_quoted(' '.join(option.choices))}"
            elif option.names_of:
                value += f" -f -a '({_ask(option.names_of)[2:-1]})'"
            elif option.metavar and not option.files:
                value += " -f"
            lines.append(f"complete -c husk -n {here}{spelled}{value} -d {_quoted(option.help)}")
    return _FISH + "\n".join(lines) + "\n"


SHELLS: dict[str, Callable[[list[Level]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
