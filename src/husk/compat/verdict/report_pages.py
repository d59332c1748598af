"""compat: verdicts as a page: Markdown and HTML, a matrix whose cells lead to their evidence.

Everything that comes from files is escaped. The HTML is one file without scripts. Not here: text for a terminal.
"""

from __future__ import annotations

from husk.compat.html_shell import PALETTE, escaped, page_head
from husk.compat.verdict.judge import BREAKS, EXCUSED, FALLBACK, RUNS, SURE_TEXTS, UNCLEAR, Divergence, Verdict

_SIGNS = {RUNS: "✓", FALLBACK: "~", BREAKS: "✗", UNCLEAR: "?"}
_TITLE = "Compatibility"


def markdown(verdicts: list[Verdict]) -> str:
    subjects, runtimes, cells = _matrix(verdicts)
    lines = [f"# {_TITLE}", "", f"| program | {' | '.join(map(_md, runtimes))} |", "|---" * (len(runtimes) + 1) + "|"]
    for subject in subjects:
        row = [f"[{_SIGNS[one.status]} {one.status}](#{_anchor(verdicts, one)})" for one in cells[subject]]
        lines.append(f"| {_md(subject)} | {' | '.join(row)} |")
    for one in verdicts:
        lines += ["", f'<a id="{_anchor(verdicts, one)}"></a>', "", f"## {_md(one.subject)} in {_md(one.runtime)}", ""]
        lines.append(f"**{one.status}**, from {_basis(one)}." + (f" {_md(one.line)}." if one.line else ""))
        if one.measured is not None:
            lines += ["", f"Measured: {_md(one.measured.text)}."]
        lines += [f"\n- unclear: {_md(text)}" for text in one.unclear]
        for divergence in one.divergences:
            lines += ["", f"- {_md(divergence.line(one.title))}"]
            lines += [f"  - {title}: {_md(text)}" for title, text in _details(divergence)]
        lines += [f"\n- {title}: {_md(text)}" for title, text in _rest(one)]
    return "\n".join(lines) + "\n"


def html(verdicts: list[Verdict]) -> str:
    subjects, runtimes, cells = _matrix(verdicts)
    parts = [
        page_head(_TITLE, _STYLE),
        "<body>",
        f"<h1>{_TITLE}</h1>",
        '<div class="scroll"><table><thead><tr><th scope="col">program</th>',
        *(f'<th scope="col">{escaped(name)}</th>' for name in runtimes),
        "</tr></thead><tbody>",
    ]
    for subject in subjects:
        parts.append(f'<tr><th scope="row">{escaped(subject)}</th>')
        for one in cells[subject]:
            link = f'<a href="#{_anchor(verdicts, one)}">{_SIGNS[one.status]} {escaped(one.status)}</a>'
            parts.append(f'<td class="{_class(one)}">{link}</td>')
        parts.append("</tr>")
    parts.append("</tbody></table></div>")
    for one in verdicts:
        parts += _section(verdicts, one)
    parts.append("</body></html>")
    return "\n".join(parts) + "\n"


def _section(verdicts: list[Verdict], one: Verdict) -> list[str]:
    parts = [
        f'<section id="{_anchor(verdicts, one)}">',
        f"<h2>{escaped(one.subject)} <small>in {escaped(one.runtime)}</small></h2>",
        f'<p><span class="word {_class(one)}">{escaped(one.status)}</span> from {_basis(one)}</p>',
    ]
    if one.line:
        parts.append(f'<p class="line">{_code(one.line)}</p>')
    if one.measured is not None:
        parts.append(f"<p>Measured: {escaped(one.measured.text)}.</p>")
    if one.unclear:
        parts.append("<ul>" + "".join(f"<li>unclear: {escaped(text)}</li>" for text in one.unclear) + "</ul>")
    for divergence in one.divergences:
        rows = "".join(f"<dt>{title}</dt><dd>{_linked(text)}</dd>" for title, text in _details(divergence))
        parts.append(f"<details><summary>{_code(divergence.line(one.title))}</summary><dl>{rows}</dl></details>")
    for title, text in _rest(one):
        parts.append(f"<details><summary>{escaped(title)}</summary><p>{escaped(text)}</p></details>")
    parts.append('<p><a href="#">back to the table</a></p></section>')
    return parts


def _details(one: Divergence) -> list[tuple[str, str]]:
    rows = [("how sure", SURE_TEXTS[one.need.sure]), *(("where", place) for place in one.need.places)]
    if one.text:
        rows.append(("the runtime", one.text))
    if one.excused:
        rows.append(("also", EXCUSED))
    if one.fallback is not None:
        rows += [("who copes", one.fallback.who), ("source", one.fallback.source)]
    if one.remedy is not None and one.fatal:
        rows += [("remedy", one.remedy.text), ("source", one.remedy.source)]
    return rows


def _rest(one: Verdict) -> list[tuple[str, str]]:
    """What the verdict rests on besides divergences."""
    rows = []
    if one.asked:
        rows.append((f"calls held against {one.runtime} ({len(one.asked)})", ", ".join(one.asked)))
    if one.hidden:
        rows.append(("arguments that decide here and were not seen", ", ".join(one.hidden)))
    if one.partial:
        rows.append(("offered in part", "; ".join(one.partial)))
    if one.beyond:
        rows.append(("missing too, but not called in this run", ", ".join(one.beyond)))
    return rows


def _matrix(verdicts: list[Verdict]) -> tuple[list[str], list[str], dict[str, list[Verdict]]]:
    subjects = list(dict.fromkeys(one.subject for one in verdicts))
    runtimes = list(dict.fromkeys(one.runtime for one in verdicts))
    return subjects, runtimes, {name: [one for one in verdicts if one.subject == name] for name in subjects}


def _anchor(verdicts: list[Verdict], one: Verdict) -> str:
    return f"cell-{next(n for n, other in enumerate(verdicts, 1) if other is one)}"


def _basis(one: Verdict) -> str:
    return {"look": "a look at its code", "trace": "a trace of a run", "measured": "a run with that surface"}[one.basis]


def _class(one: Verdict) -> str:
    return {RUNS: "runs", FALLBACK: "fallback", BREAKS: "breaks", UNCLEAR: "unknown"}[one.status]


def _code(text: str) -> str:
    """Words between backticks as code."""
    parts = text.split("`")
    return "".join(f"<code>{escaped(part)}</code>" if n % 2 else escaped(part) for n, part in enumerate(parts))


def _linked(text: str) -> str:
    words = []
    for word in text.split(" "):
        bare = word.rstrip(";,.")
        if bare.startswith(("https://", "http://")) and '"' not in bare:
            words.append(f'<a href="{escaped(bare)}">{escaped(bare)}</a>{escaped(word[len(bare) :])}')
        else:
            words.append(escaped(word))
    return " ".join(words)


def _md(text: str) -> str:
    """Text from files must not end a table's cell, begin a tag or a heading."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    if len(parts) % 2 == 0:  # a backtick without a partner would make code of what follows
        return "\\`".join(map(_plain, parts))
    return "`".join(part if n % 2 else _plain(part) for n, part in enumerate(parts))


def _plain(text: str) -> str:
    return text.replace("<", "&lt;").replace("[", "\\[").replace("*", "\\*")


_STYLE = PALETTE + """
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;
  background:var(--paper);color:var(--ink)}
h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2.2rem;overflow-wrap:anywhere}h2 small{font-weight:400}
.scroll{overflow-x:auto}table{border-collapse:collapse}
th,td{border:1px solid var(--line);padding:.4rem .7rem;text-align:left;white-space:nowrap}
td a{color:inherit;text-decoration:none;display:block}td a:hover{text-decoration:underline}
.runs{color:var(--good)}.fallback{color:var(--warn)}.breaks{color:var(--bad)}.unknown{color:var(--unknown)}
.word{font-weight:600}.line{border-left:.25rem solid var(--line);padding-left:.8rem;overflow-wrap:anywhere}
code{font-family:ui-monospace,monospace;font-size:.92em}
details{border:1px solid var(--line);border-radius:.4rem;padding:.4rem .8rem;margin:.5rem 0}
summary{cursor:pointer;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:.6rem 0}
dt{color:var(--unknown)}dd{margin:0;overflow-wrap:anywhere}
section:target h2{text-decoration:underline}
"""
