// The query editor: checks while one types, marks the place of a mistake, explains before one saves, and offers
// examples made of the columns that the streams really have.

import { Refused, ask } from "./api.js";
import { $, el, later } from "./dom.js";

const NUMBERS = /^(u?int|float|double|halffloat|decimal)/;
const TEXTS = /string|utf8/;

export class Editor {
  constructor(onSaved) {
    this.dialog = $("editor");
    this.text = $("sql");
    this.onSaved = onSaved;
    this.asking = null;
    this.check = later(250, () => this.checkNow());
    this.text.addEventListener("input", () => { this.changed(); });
    this.text.addEventListener("scroll", () => { $("sql-back").scrollTop = this.text.scrollTop; });
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !$("save").disabled) { event.preventDefault(); this.save(); }
    });
    this.dialog.querySelector("form").addEventListener("submit", (event) => {
      if (event.submitter && event.submitter.value === "save") { event.preventDefault(); this.save(); }
    });
    // Enter in the name's field would press the first button of the form, which closes it
    $("query-name").addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); if (!$("save").disabled) this.save(); }
    });
  }

  async open(time) {
    this.time = time;
    this.dialog.showModal();
    this.text.focus();
    if (this.text.value.trim()) this.check();
    let streams = [];
    try { streams = (await ask("/api/streams")).streams; } catch { /* no examples, then */ }
    this.offer(streams);
  }

  offer(streams) {
    const known = streams.filter((stream) => stream.columns.length);
    const examples = known.flatMap((stream) => examplesOf(stream)).slice(0, 8);
    $("examples").replaceChildren(...(examples.length ? [el("span", {}, "Begin with")] : []), ...examples.map(([label, sql, name]) => el("button", {
      type: "button",
      onclick: () => { this.text.value = sql; if (!$("query-name").value) $("query-name").value = name; this.changed(); this.text.focus(); },
    }, label)));
    const columns = known.flatMap((stream) => stream.columns.map((column) => [column, known.length > 1 ? `${stream.name}: ` : ""]));
    $("columns").replaceChildren(...(columns.length ? [el("span", {}, "Columns")] : []), ...columns.slice(0, 40).map(([column, of]) => el("button", {
      type: "button", title: `${of}${column.type}`, onclick: () => this.insert(quoted(column.name)),
    }, column.name)));
  }

  insert(name) {
    const { selectionStart: start, selectionEnd: end, value } = this.text;
    const gap = start > 0 && !/[\s(,]$/.test(value.slice(0, start)) ? " " : "";
    this.text.setRangeText(gap + name, start, end, "end");
    this.changed();
    this.text.focus();
  }

  changed() {
    $("save").disabled = true;
    this.mark(null);
    if (this.asking) this.asking.abort();
    if (!this.text.value.trim()) { this.check.cancel(); this.say("", "Write a query, or begin with an example."); this.plan(null); return; }
    this.check();
  }

  async checkNow() {
    const sql = this.text.value;
    if (!sql.trim()) return;
    if (this.asking) this.asking.abort();
    const asking = new AbortController();
    this.asking = asking;
    try {
      const found = await ask("/api/check", { method: "POST", json: { sql }, signal: asking.signal });
      if (sql !== this.text.value) return;
      $("save").disabled = false;
      this.say("good", described(found.query || {}));
      this.plan(found.explain || "");
    } catch (error) {
      if (error.name === "AbortError" || sql !== this.text.value) return;
      if (!(error instanceof Refused)) throw error;
      const { where } = error;
      const said = /\bline \d|\bcolumn \d/.test(error.message); // the sentence says where
      const place = !said && where && where.line ? (sql.includes("\n") ? `Line ${where.line}, column ${where.column}: ` : `Column ${where.column}: `) : "";
      const hint = where && where.hint && !error.message.includes(where.hint) ? ` Did you mean ${where.hint}?` : "";
      this.say("bad", `${place}${error.message}${hint}`);
      this.mark(where);
      this.plan(null);
    }
  }

  say(kind, text) {
    const word = $("sql-word");
    word.dataset.kind = kind;
    word.textContent = text;
  }

  plan(text) {
    $("sql-plan").hidden = !text;
    $("sql-explain").textContent = text || "";
  }

  /** The text again behind the text, with the word that is wrong underlined. */
  mark(where) {
    const back = $("sql-back");
    this.text.toggleAttribute("aria-invalid", Boolean(where));
    if (!where || !where.line) { back.replaceChildren(); return; }
    const sql = this.text.value;
    const lines = sql.split("\n");
    let at = lines.slice(0, where.line - 1).reduce((n, line) => n + line.length + 1, 0) + where.column - 1;
    at = Math.max(0, Math.min(at, sql.length));
    const word = /^[\p{L}\p{N}_.]+|^\S/u.exec(sql.slice(at));
    const end = word ? at + word[0].length : at + 1;
    back.replaceChildren(sql.slice(0, at), el("mark", {}, sql.slice(at, end) || " "), `${sql.slice(end)}\n`);
    back.scrollTop = this.text.scrollTop;
  }

  async save() {
    const name = $("query-name").value.trim();
    this.check.cancel(); // it would talk over what is said of the saving
    if (this.asking) this.asking.abort();
    $("save").disabled = true;
    try {
      const made = await ask("/api/queries", { method: "POST", json: name ? { name, sql: this.text.value } : { sql: this.text.value } });
      this.dialog.close();
      this.text.value = "";
      $("query-name").value = "";
      this.say("", "Write a query, or begin with an example.");
      this.mark(null);
      this.plan(null);
      this.onSaved(made);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      $("save").disabled = false;
      this.say("bad", error.message);
      this.mark(error.where);
    }
  }
}

function described(query) {
  const what = query.k ? `the first ${query.k}` : query.kind === "threshold" ? "every row beyond the bound" : "an answer";
  const how = query.algorithm ? `, kept by ${query.algorithm}` : "";
  return `This is right: ${what} over ${String(query.window || "the window").toLowerCase()}${how}.`;
}

const quoted = (name) => (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

/** Queries that make sense for a stream's own columns: [what it is, SQL, a name for it]. */
export function examplesOf(stream) {
  const of = (test) => stream.columns.filter((c) => test.test(c.type) && c.name !== stream.time).map((c) => quoted(c.name));
  const texts = of(TEXTS);
  const named = of(NUMBERS);
  // an id or a key is no measure
  const numbers = [...named.filter((n) => !/(^|_)(id|key|no|nr)$/i.test(n)), ...named.filter((n) => /(^|_)(id|key|no|nr)$/i.test(n))];
  const from = quoted(stream.name || "s");
  const window = stream.time ? "1 MINUTE" : "1000 ROWS";
  if (!numbers.length) return [];
  const [x, y] = numbers;
  const shown = [...texts.slice(0, 2), x].join(", ");
  const found = [[`highest ${x}`, `SELECT ${shown} FROM ${from} ORDER BY ${x} DESC LIMIT 10 WINDOW ${window}`, `highest ${x}`]];
  if (y) found.push([`${x} / ${y}`, `SELECT ${[...texts.slice(0, 2), x, y].join(", ")} FROM ${from} WHERE ${y} > 0 ORDER BY ${x} / ${y} DESC LIMIT 10 WINDOW ${window}`, `${x} per ${y}`]);
  if (texts.length) {
    found.push([`most ${x} by ${texts[0]}`, `SELECT ${texts[0]}, SUM(${x}) AS total FROM ${from} GROUP BY ${texts[0]} ORDER BY SUM(${x}) DESC LIMIT 10 WINDOW ${window}`, `${x} by ${texts[0]}`]);
    found.push([`busiest ${texts.at(-1)}`, `SELECT ${texts.at(-1)}, COUNT(*) AS rows FROM ${from} GROUP BY ${texts.at(-1)} ORDER BY COUNT(*) DESC LIMIT 5 WINDOW ${window}`, `busiest ${texts.at(-1)}`]);
  }
  found.push([`lowest ${x}`, `SELECT ${shown} FROM ${from} ORDER BY ${x} LIMIT 5 WINDOW ${window}`, `lowest ${x}`]);
  return found.map(([label, sql, name]) => [label, sql, name.replaceAll('"', "")]);
}
