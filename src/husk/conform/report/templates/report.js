"use strict";
// The table of cases: found, filtered and sorted from the data in the page; the state is the fragment of the address.
// Texts of strangers are only ever set as text: this file makes no HTML from strings.
(() => {
  const PER_PAGE = 100;
  const WORDS = { p: "pass", f: "fail", c: "crash", h: "hang", s: "skip", n: "not-native", k: "flaky", "-": "not-run" };
  const BADNESS = { f: 0, c: 1, h: 2, s: 4, k: 5, n: 6, p: 7, "-": 8 };
  const VERDICTS = [
    ["", "any"], ["missed", "missed"], ["unexpected", "missed, not expected"], ["expected", "missed, expected"],
    ["design", "refused by design"], ["surprise", "passes unexpectedly"], ["pass", "pass"], ["fail", "fail"],
    ["crash", "crash"], ["hang", "hang"], ["skip", "skip"], ["not-native", "not native"], ["flaky", "flaky"],
  ];
  const data = JSON.parse(document.getElementById("data").textContent);
  const wide = data.columns.length;
  const [FILE, FAMILY, NAME, RAN, TIMES] = [0, 1, 2, 3, 4];
  const [CALL_NAME, CALL_FILES] = [0, 7];
  const by = (id) => document.getElementById(id);

  function make(kind, attributes, ...children) {
    const made = document.createElement(kind);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "class") made.className = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== false && value !== null) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null && child !== ""));
    return made;
  }

  // -- the cases ------------------------------------------------------------------------------------------------
  const full = data.cases.map((one) => {
    const [suite, file] = data.files[one[FILE]];
    return `${data.suites[suite]}/${file}/${one[NAME]}`;
  });
  const lower = full.map((name) => name.toLowerCase());
  const numberOf = new Map(full.map((name, number) => [name, number]));
  const reason = new Int32Array(data.cases.length * wide).fill(-1);
  for (const [number, rows] of Object.entries(data.details)) {
    for (const row of rows) reason[number * wide + row[0]] = row[3];
  }
  const isMiss = (letter) => letter === "f" || letter === "c" || letter === "h";
  const designed = (number) => number >= 0 && data.reasons[number][1] === 1;
  const time = (one, column) => (one[TIMES] ? one[TIMES][column] : 0);

  function holds(verdict, letter, why) {
    switch (verdict) {
      case "": return true;
      case "missed": return isMiss(letter);
      case "unexpected": return isMiss(letter) && why < 0;
      case "expected": return isMiss(letter) && why >= 0;
      case "design": return isMiss(letter) && designed(why);
      case "surprise": return letter === "p" && why >= 0;
      default: return WORDS[letter] === verdict;
    }
  }
  function differs(ran) {
    let passes = false, missed = false;
    for (const letter of ran) {
      if (letter === "p") passes = true;
      else if (isMiss(letter)) missed = true;
    }
    return passes && missed;
  }

  // -- the state ------------------------------------------------------------------------------------------------
  const KEYS = ["q", "in", "verdict", "family", "suite", "differ", "passes", "reason", "call", "change", "sort", "page", "case"];
  let state = {};
  let shown = [];

  function readState() {
    const found = {};
    const text = location.hash.slice(1);
    if (text.includes("=")) {
      for (const part of text.split("&")) {
        const cut = part.indexOf("=");
        const key = part.slice(0, cut);
        if (cut < 1 || !KEYS.includes(key)) continue;
        try { found[key] = decodeURIComponent(part.slice(cut + 1)); } catch { /* no address of ours */ }
      }
    }
    return found;
  }
  const address = (wanted) =>
    KEYS.filter((key) => wanted[key]).map((key) => `${key}=${encodeURIComponent(wanted[key]).replaceAll("%2F", "/")}`).join("&");
  function change(more, { keepPage = false } = {}) {
    const wanted = { ...state, ...more };
    if (!keepPage) delete wanted.page;
    history.replaceState(null, "", `#${address(wanted) || "cases"}`);
    apply(wanted);
  }
  const column = () => { const number = Number(state.in || 0); return number >= 0 && number < wide ? Math.floor(number) : 0; };

  function filtered() {
    const at = column();
    const words = (state.q || "").toLowerCase().split(/\s+/).filter(Boolean);
    const family = state.family ? data.families.indexOf(state.family) : -1;
    const suite = state.suite ? data.suites.indexOf(state.suite) : -1;
    const files = state.call ? new Set((data.calls.find((one) => one[CALL_NAME] === state.call) || [])[CALL_FILES]) : null;
    const of = state.change ? new Set(((data.changes[at] || {})[state.change]) || []) : null;
    const found = [];
    for (let number = 0; number < data.cases.length; number++) {
      const one = data.cases[number];
      const why = reason[number * wide + at];
      if (state.family && one[FAMILY] !== family) continue;
      if (state.suite && data.files[one[FILE]][0] !== suite) continue;
      if (!holds(state.verdict || "", one[RAN][at], why)) continue;
      if (state.differ && !differs(one[RAN])) continue;
      if (state.passes && one[RAN][Number(state.passes)] !== "p") continue;
      if (state.reason && (why !== Number(state.reason) || !isMiss(one[RAN][at]))) continue;
      if (files && !files.has(one[FILE])) continue;
      if (of && !of.has(number)) continue;
      if (words.length && !words.every((word) => lower[number].includes(word))) continue;
      found.push(number);
    }
    return found;
  }

  function badness(number, at) {
    const letter = data.cases[number][RAN][at];
    const why = reason[number * wide + at];
    if (letter === "p" && why >= 0) return 3;
    return BADNESS[letter] + (isMiss(letter) && why >= 0 ? (designed(why) ? 0.5 : 0.25) + 2.1 : 0);
  }
  function sorted(found) {
    const key = (state.sort || "v0").replace(/^-/, "");
    const turn = (state.sort || "").startsWith("-") ? -1 : 1;
    let value;
    if (key === "name") value = (number) => number; // cases are stored by name
    else if (key === "family") value = (number) => data.families[data.cases[number][FAMILY]];
    else if (key === "time") value = (number) => -time(data.cases[number], column());
    else { const at = Number(key.slice(1)) || 0; value = (number) => badness(number, at < wide ? at : 0); }
    const rows = found.map((number) => [value(number), number]);
    rows.sort((one, other) => (one[0] < other[0] ? -turn : one[0] > other[0] ? turn : one[1] - other[1]));
    return rows.map((row) => row[1]);
  }

  // -- the table ------------------------------------------------------------------------------------------------
  function badge(number, at) {
    const letter = data.cases[number][RAN][at];
    const why = reason[number * wide + at];
    let kind = `badge v-${WORDS[letter]}`;
    let says = WORDS[letter].replace("-", " ");
    let title = null;
    if (isMiss(letter) && why >= 0) {
      kind += designed(why) ? " design" : " expected";
      title = `${designed(why) ? "refused by design" : "expected"}: ${data.reasons[why][0]}`;
    } else if (letter === "p" && why >= 0) {
      kind += " surprise";
      title = "a failure was expected";
    }
    const made = make("span", { class: kind, title }, letter === "-" ? "–" : says);
    if (letter === "-") made.append(make("span", { class: "unseen" }, "not run"));
    else if (title) made.append(make("span", { class: "unseen" }, `, ${title}`));
    return made;
  }
  const seconds = (milliseconds) => (!milliseconds ? "" : milliseconds < 1000 ? `${milliseconds} ms` : `${(milliseconds / 1000).toFixed(1)} s`);
  const caseAddress = (number) => `#${address({ ...state, case: full[number] })}`;

  function head() {
    const key = (state.sort || "v0").replace(/^-/, "");
    const down = (state.sort || "").startsWith("-");
    const cells = [["name", "case", "name"], ["family", "family", "c-family"]];
    data.columns.forEach((label, at) => cells.push([`v${at}`, label, `c-verdict${at === column() ? " chosen" : ""}`]));
    cells.push(["time", "time", "c-time n"]);
    by("case-head").replaceChildren(...cells.map(([name, label, kind]) => {
      const own = key === name;
      const next = own && !down ? `-${name}` : name;
      return make("th", { scope: "col", class: kind, "aria-sort": own ? (down ? "descending" : "ascending") : null },
        make("button", { type: "button", title: label, "data-sort": name, onclick: () => {
          change({ sort: next });
          document.querySelector(`[data-sort="${name}"]`).focus();
        } }, label));
    }));
  }
  function row(number) {
    const one = data.cases[number];
    const [suite, file] = data.files[one[FILE]];
    const cells = [
      make("td", { class: "name" }, make("a", { href: caseAddress(number), "data-case": number },
        make("span", { class: "path" }, `${data.suites.length > 1 ? `${data.suites[suite]}/` : ""}${file}`), one[NAME])),
      make("td", { class: "c-family" }, data.families[one[FAMILY]] || ""),
    ];
    for (let at = 0; at < wide; at++) cells.push(make("td", { class: `c-verdict${at === column() ? " chosen" : ""}` }, badge(number, at)));
    cells.push(make("td", { class: "c-time n" }, seconds(time(one, column()))));
    return make("tr", {}, ...cells);
  }
  function chips() {
    const made = [];
    const chip = (key, text) => made.push(make("button", { type: "button", class: "chip", "aria-label": `Remove the filter: ${text}`,
      onclick: () => change({ [key]: "" }) }, text));
    if (state.reason && data.reasons[Number(state.reason)]) chip("reason", `reason: ${data.reasons[Number(state.reason)][0].slice(0, 60)}`);
    if (state.call) chip("call", `files that exercise ${state.call}`);
    if (state.change) chip("change", { regressions: "regressed", fixes: "fixed", appeared: "new", shifted: "otherwise changed" }[state.change] || state.change);
    if (state.passes && data.columns[Number(state.passes)]) chip("passes", `passes in ${data.columns[Number(state.passes)]}`);
    if (address({ ...state, in: "", sort: "", page: "", case: "" })) {
      made.push(make("button", { type: "button", class: "chip", id: "clear", onclick: () => change(Object.fromEntries(KEYS.map((key) => [key, ""]))) }, "all filters"));
    }
    by("chips").replaceChildren(...made);
  }
  function render() {
    const pages = Math.max(1, Math.ceil(shown.length / PER_PAGE));
    const page = Math.min(pages, Math.max(1, Math.floor(Number(state.page)) || 1));
    head();
    chips();
    by("case-rows").replaceChildren(...shown.slice((page - 1) * PER_PAGE, page * PER_PAGE).map(row));
    by("found").textContent = `${shown.length.toLocaleString("en")} of ${data.cases.length.toLocaleString("en")} cases`;
    by("p-where").textContent = `page ${page} of ${pages}`;
    for (const [id, wanted, off] of [["p-first", 1, page === 1], ["p-back", page - 1, page === 1], ["p-next", page + 1, page === pages], ["p-last", pages, page === pages]]) {
      by(id).disabled = off;
      by(id).onclick = () => { change({ page: wanted > 1 ? String(wanted) : "" }, { keepPage: true }); by("cases").scrollIntoView(); };
    }
  }
  function fields() {
    for (const key of ["q", "in", "verdict", "family", "suite"]) {
      const field = by(`f-${key}`);
      if (document.activeElement !== field || key !== "q") field.value = state[key] || (key === "in" ? "0" : "");
    }
    by("f-differ").checked = Boolean(state.differ);
  }

  // -- one case -------------------------------------------------------------------------------------------------
  const drill = by("drill");
  function callsOf(number) {
    const about = `${lower[number]} ${(data.details[number] || []).map((one) => data.whys[one[1]] || "").join(" ").toLowerCase()}`;
    const word = (call) => data.calls[call][CALL_NAME].replace(/[^a-z0-9_]/g, ".");
    const named = (call) => new RegExp(`(^|[^a-z0-9])${word(call)}([^a-z0-9]|$)`).test(about);
    const calls = data.fileCalls[data.cases[number][FILE]] || [];
    return [...calls.filter(named), ...calls.filter((call) => !named(call))];
  }
  function registryRow(call) {
    const [name, way, why, rules, passed, total, priority] = data.calls[call];
    return make("div", { class: "registry" },
      make("p", {}, make("code", {}, make("b", {}, name)), ` is ${way} in husk: `, make("span", { class: "dim" }, why)),
      rules.length ? make("ul", {}, ...rules.map((rule) => make("li", {}, rule))) : null,
      make("p", { class: "dim" }, make("small", {}, `${priority} priority${total ? `, ${passed.toLocaleString("en")} of ${total.toLocaleString("en")} cases pass that exercise it` : ""}`)));
  }
  function ranIn(number, at, open) {
    const one = data.cases[number];
    const [, why, output, because, outcome] = (data.details[number] || []).find((row) => row[0] === at) || [at, -1, -1, -1, ""];
    const letter = one[RAN][at];
    const aside = letter === "n" || letter === "k" ? ` It ended as ${WORDS[outcome]} here.` : "";
    return make("div", { class: "ran" },
      make("p", {}, make("span", { class: "who" }, data.columns[at]), badge(number, at), " ", make("span", { class: "dim" }, seconds(time(one, at)) + aside)),
      why >= 0 ? make("p", {}, make("code", {}, data.whys[why])) : null,
      because >= 0 ? make("p", { class: "dim" }, `${designed(because) ? "Refused by design" : isMiss(letter) ? "Expected" : "A failure was expected"}: ${data.reasons[because][0]}`) : null,
      output >= 0 ? make("details", { open }, make("summary", {}, "Output"), make("pre", { tabindex: "0", "aria-label": `Output in ${data.columns[at]}` }, data.outputs[output])) : null);
  }
  function showCase(number) {
    const one = data.cases[number];
    const [suite, file] = data.files[one[FILE]];
    const at = shown.indexOf(number);
    const step = (by_) => shown[at + by_];
    const go = (wanted) => wanted !== undefined && change({ case: full[wanted] }, { keepPage: true });
    const calls = callsOf(number);
    let opened = false;
    const ran = data.columns.map((_, place) => {
      const open = !opened && (data.details[number] || []).some((row_) => row_[0] === place && row_[2] >= 0);
      opened = opened || open;
      return ranIn(number, place, open);
    });
    const more = calls.slice(4);
    by("d-body").replaceChildren(
      make("div", { class: "d-bar" },
        make("span", {}, at >= 0 ? `${(at + 1).toLocaleString("en")} of ${shown.length.toLocaleString("en")}` : ""),
        make("button", { type: "button", id: "d-back", disabled: at <= 0, onclick: () => go(step(-1)) }, "Previous"),
        make("button", { type: "button", id: "d-next", disabled: at < 0 || at + 1 >= shown.length, onclick: () => go(step(1)) }, "Next"),
        make("button", { type: "button", id: "d-close", autofocus: true, onclick: () => drill.close() }, "Close")),
      make("h2", { id: "d-title" }, one[NAME]),
      make("p", { class: "dim" }, `${data.suites[suite]} / ${file} · ${data.families[one[FAMILY]] || ""}`),
      make("div", {}, ...ran),
      ...(data.traces[number] ? [make("h3", {}, "Trace"), make("pre", { tabindex: "0", "aria-label": "Trace" }, data.traces[number])] : []),
      ...(calls.length ? [make("h3", {}, "What husk does with the calls that this file exercises"), ...calls.slice(0, 4).map(registryRow)] : []),
      ...(more.length ? [make("details", {}, make("summary", {}, `${more.length} more`), ...more.map(registryRow))] : []));
    if (!drill.open) drill.showModal();
    drill.scrollTop = 0;
  }
  drill.addEventListener("close", () => {
    const number = numberOf.get(state.case);
    if (state.case) change({ case: "" }, { keepPage: true });
    const link = document.querySelector(`[data-case="${number}"]`);
    if (link) link.focus();
  });
  drill.addEventListener("click", (event) => { if (event.target === drill) drill.close(); });

  // -- what a person does ---------------------------------------------------------------------------------------
  function apply(wanted) {
    const again = address({ ...wanted, case: "", page: "" }) !== address({ ...state, case: "", page: "" }) || !shown.length;
    state = wanted;
    if (again) shown = sorted(filtered());
    fields();
    render();
    const number = numberOf.get(state.case);
    if (number !== undefined) showCase(number);
    else if (drill.open) { state.case = ""; drill.close(); }
  }
  function options(id, rows) {
    by(id).replaceChildren(...rows.map(([value, label]) => make("option", { value }, label)));
    by(id).addEventListener("change", () => change({ [id.slice(2)]: by(id).value === "0" && id === "f-in" ? "" : by(id).value }));
  }
  options("f-in", data.columns.map((label, at) => [String(at), label]));
  options("f-verdict", VERDICTS);
  options("f-family", [["", "all"], ...[...data.families].sort().map((name) => [name, name])]);
  options("f-suite", [["", "all"], ...[...data.suites].sort().map((name) => [name, name])]);
  by("l-suite").hidden = data.suites.length < 2;
  by("l-differ").hidden = wide < 2;
  by("f-in").parentElement.hidden = wide < 2;
  by("f-differ").addEventListener("change", () => change({ differ: by("f-differ").checked ? "1" : "" }));
  let waiting = 0;
  by("f-q").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => change({ q: by("f-q").value }), 80); });
  document.querySelector("form.controls").addEventListener("submit", (event) => event.preventDefault());
  by("case-rows").addEventListener("click", (event) => {
    if (event.target.closest("a") || String(getSelection())) return;
    event.target.closest("tr").querySelector("a").click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (drill.open) {
      if (event.target.closest("pre")) return; // the arrows scroll it
      if (event.key === "ArrowLeft") by("d-back").click();
      if (event.key === "ArrowRight") by("d-next").click();
    } else if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      event.preventDefault();
      by("f-q").focus();
    }
  });
  addEventListener("hashchange", () => {
    const wanted = readState();
    if (!location.hash.includes("=")) { // a section of the page: its links leave the filters alone
      if (drill.open) apply({ ...state, case: "" });
      return;
    }
    apply(wanted);
    if (!wanted.case) by("cases").scrollIntoView();
  });
  // Browsers without ::details-content print only what is open.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("main details:not([open], .screen)")];
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of closed) one.open = false; });

  document.documentElement.classList.add("js");
  by("table-of-cases").hidden = false;
  apply(readState());
  if (location.hash.includes("=") && !state.case) by("cases").scrollIntoView();
})();
