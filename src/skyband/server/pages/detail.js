// One query, closely: its leaderboard, its ranks over time, its picture, what enters next, its plan.

import { Refused, ask, queryPath } from "./api.js";
import { Board } from "./board.js";
import { $, announce, el, later, say } from "./dom.js";
import { brief, bytes, count, keyOf, labelOf, seconds, share } from "./format.js";
import { answerAt, draw, scales } from "./picture.js";
import { RankChart } from "./ranks.js";

const LINES = 100;
const LOOK = 1000; // milliseconds between two pictures
const SPEAK = 5000; // and between two words about who leads

export class Detail {
  constructor(allowed) {
    this.allowed = allowed;
    this.name = null;
    this.data = null;
    this.chart = new RankChart($("ranks"));
    this.slider = $("ahead");
    this.slider.addEventListener("input", () => this.drawNext());
    this.word = $("ahead-word");
    this.list = $("next");
    $("plan").addEventListener("toggle", () => this.explain());
    $("change").addEventListener("submit", (event) => { event.preventDefault(); this.change(); });
    $("drop").addEventListener("click", () => this.drop());
    document.addEventListener("theme", () => this.redraw());
    addEventListener("resize", later(100, () => this.redraw()));
  }

  open(query) {
    this.name = query.name;
    this.board = new Board(LINES, 6);
    this.data = this.top = this.history = null;
    this.looked = -Infinity;
    this.leader = null;
    this.spoke = -Infinity;
    this.slider.value = 0;
    this.chart.clear();
    this.list.replaceChildren();
    say(this.word, "");
    $("detail-board").replaceChildren(this.board.node);
    $("explain").textContent = "";
    say($("change-word"), "");
    this.ask(false);
    this.described(query);
    const form = $("change").elements;
    form.k.value = query.k ?? "";
    form.k.disabled = query.k === null;
    form.k.parentElement.hidden = query.k === null;
    form.window.value = query.window;
    for (const part of form) if (!this.allowed.admin) part.disabled = true;
    if ($("plan").open) this.explain();
  }

  close() { this.name = null; }

  described(query) {
    say($("detail-name"), query.name);
    say($("detail-sql"), query.sql);
  }

  /** Called a few times a second while it is open. */
  update(top, history, now, offset) {
    if (top) {
      this.columns = top.columns;
      this.board.update(top, now);
      this.chart.draw(history, now);
      const first = this.top === null;
      this.top = top;
      this.history = history;
      if (first && this.data) this.drawNext(); // now the names are known
      this.speak(top, now);
    }
    if (now - this.looked > LOOK && !this.looking && Number(this.slider.value) === 0 && !(this.data && offset === this.offset)) {
      this.looked = now;
      this.offset = offset;
      this.look();
    }
  }

  speak(top, now) {
    const first = top.rows[0];
    const leader = first ? labelOf(first, top.columns) : null;
    if (leader === this.leader || now - this.spoke < SPEAK) return;
    if (this.leader !== null && leader !== null) announce(`${leader} leads ${this.name}`);
    this.leader = leader;
    this.spoke = now;
  }

  // -- the picture ------------------------------------------------------------------------------------------

  async look() {
    this.looking = true;
    const name = this.name;
    try {
      const data = await ask(queryPath(name, "/picture"));
      if (name !== this.name || Number(this.slider.value) > 0) return;
      this.data = data;
      $("picture").parentElement.hidden = false;
      this.redraw();
      this.drawLegend();
      this.drawNext();
    } catch (error) {
      this.offset = null; // try again
      if (name === this.name) { $("picture").parentElement.hidden = !this.data; say($("why"), error.message); }
    } finally {
      this.looking = false;
    }
  }

  edge() {
    const { data } = this;
    const part = Number(this.slider.value) / 1000;
    const s = scales(data, 100, 100);
    return part === 0 ? (data.horizon ?? -Infinity) : s.from + part * (s.now - s.from);
  }

  redraw() {
    if (!this.data || this.name === null) return;
    draw($("picture"), this.data, this.edge());
    const { data } = this;
    $("picture").setAttribute("aria-label", `${count(data.candidates.length)} candidates of ${count(data.window_rows)} rows in the window, ${data.top.length} of them in the answer`);
  }

  drawLegend() {
    const { data } = this;
    const key = (kind, text) => el("span", {}, el("i", { class: `key ${kind}`, "aria-hidden": "true" }), text);
    const parts = [key("top", "in the answer")];
    if (data.kind !== "threshold") parts.push(key("candidate", data.kind === "objects" ? "other objects" : "can still enter"));
    if (data.rows.length && data.kind === "rows") parts.push(key("row", data.rows.length < data.window_rows ? `${count(data.rows.length)} sampled rows of the window` : "rows of the window"));
    if (data.kind === "rows") parts.push(key("shade", data.k === 1 ? "below the stairs a newer row is better" : `below the stairs ${data.k} newer rows are better`));
    $("legend").replaceChildren(...parts);
    say($("why"), why(data));
  }

  // -- what enters next ---------------------------------------------------------------------------------------

  drawNext() {
    const { data } = this;
    const able = data && data.kind !== "objects" && data.candidates.length > 0;
    this.slider.disabled = !able;
    this.slider.parentElement.hidden = this.word.hidden = Boolean(data && data.kind === "objects");
    if (!able) {
      say(this.word, "");
      const why = data && data.kind === "objects" ? "An object stays while it has rows in the window: what comes next depends on all of them." : "There is no row yet that could expire.";
      this.list.replaceChildren(el("li", {}, el("span", { class: "whole" }, why)));
      return;
    }
    const edge = this.edge();
    const moved = Number(this.slider.value) > 0;
    const was = new Set(data.top.map((p) => p[2]));
    const now = answerAt(data, edge);
    const left = data.top.filter((p) => p[0] < edge).length;
    const fresh = now.filter((p) => !was.has(p[2])).length;
    say(this.word, moved
      ? `${capital(this.when(edge))}, if no row came: ${left} of ${data.top.length} have left, ${fresh} ${fresh === 1 ? "has" : "have"} entered.`
      : "See which rows enter when the oldest leave. They are known already: that is what candidates are kept for.");
    this.redraw();
    const labels = new Map((this.top?.rows || []).map((row) => [keyOf(row, this.columns), labelOf(row, this.columns)]));
    for (const step of data.next) {
      const names = Object.keys(step.row || {});
      if (names.length) labels.set(String(step.enters), labelOf({ ...step.row, seq: step.enters }, names));
    }
    this.list.replaceChildren(...data.next.map((step) => this.step(step, edge, labels)));
  }

  step(step, edge, labels) {
    const label = (key) => labels.get(String(key)) ?? this.history?.labels.get(String(key)) ?? (typeof key === "number" ? `row ${count(key)}` : String(key));
    const parts = [el("b", {}, label(step.leaves)), " leaves"];
    if (step.enters !== null) parts.push(", ", el("b", { class: "comes" }, label(step.enters)), ` enters at rank ${step.rank} with ${brief(step.score)}`);
    else if (this.data.k !== null) parts.push(", and no row is left to take its place");
    return el("li", { class: step.at < edge ? "done" : null }, el("time", {}, this.when(step.at)), el("span", {}, ...parts));
  }

  /** How long until the window's edge has passed this recency. */
  when(at) {
    const { data } = this;
    if (data.unit === "time" && !data.counts_rows) return `in ${seconds(Math.max(0, at - (data.now - data.length)))}`;
    if (data.unit === "seq") return `after ${count(Math.max(1, Math.ceil(at - (data.now - data.length))))} rows`;
    return at > 1e8 ? `past ${new Date(at * 1000).toLocaleTimeString("en-GB")}` : `past ${brief(at)}`;
  }

  // -- plan, change, drop -------------------------------------------------------------------------------------

  async explain() {
    if (!$("plan").open || this.name === null) return;
    const name = this.name;
    try {
      const answer = await ask(queryPath(name, "/explain"));
      if (name === this.name) $("explain").textContent = answer.text;
    } catch (error) {
      $("explain").textContent = error.message;
    }
  }

  async change() {
    const form = $("change").elements;
    const json = { window: form.window.value };
    if (!form.k.disabled && form.k.value !== "") json.k = Number(form.k.value);
    try {
      const query = await ask(queryPath(this.name), { method: "PATCH", json });
      this.described(query);
      say($("change-word"), "Changed. A larger k or window is exact as far as rows are known; the plan says until when.");
      this.explain();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      say($("change-word"), error.message);
    }
  }

  ask(sure) {
    this.sure = sure;
    say($("drop"), sure ? "Drop it for good" : "Drop this query");
  }

  async drop() {
    if (!this.sure) { this.ask(true); setTimeout(() => this.ask(false), 4000); return; }
    try {
      await ask(queryPath(this.name), { method: "DELETE" });
      location.hash = "#/";
    } catch (error) {
      say($("change-word"), error.message);
    }
  }
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

function why(data) {
  const { window_rows: rows, state_rows: kept } = data;
  if (data.kind === "objects") return `${data.note} ${bytes(data.state_bytes)} in all.`;
  if (data.kind === "threshold") return `${data.note} ${count(kept)} of ${count(rows)} rows are.`;
  if (data.kind === "pairs") return `${count(kept)} pairs are kept, of ${count((rows * (rows - 1)) / 2)} that the window has. ${data.note}`;
  const part = rows ? ` (${share(data.candidates.length / rows)})` : "";
  const able = `${count(data.candidates.length)} of ${count(rows)} rows${part} can still get into the answer.`;
  const reason = `Whatever lies below the stairs has ${data.k === 1 ? "a newer row that is better" : `${data.k} newer rows that are better`} and will outlive it`;
  return data.keeps_window ? `${able} ${reason}; this algorithm (${data.algorithm}) keeps the whole window all the same.` : `${able} ${reason}: it can never enter, so it isn't kept. That is all the state there is: ${bytes(data.state_bytes)}.`;
}
