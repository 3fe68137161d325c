// Pushing some rows by hand: pasted or from a file, as CSV or JSON.

import { Refused, ask, rowsPath } from "./api.js";
import { $, COMPILING, el, later, patiently } from "./dom.js";
import { count } from "./format.js";

/** What a pasted text is: [content type, what to call it, about how many rows], or what is wrong with it. */
export function kindOf(text) {
  const trimmed = text.trim();
  if (!trimmed) return { wrong: "" };
  if (trimmed.startsWith("[")) {
    try { return { type: "application/json", words: "a JSON array", rows: JSON.parse(trimmed).length }; } catch (error) { return { wrong: `This begins like a JSON array, but ${error.message}.` }; }
  }
  if (trimmed.startsWith("{")) {
    const lines = trimmed.split("\n").filter((line) => line.trim());
    try {
      const whole = JSON.parse(trimmed);
      const columns = Object.values(whole);
      if (columns.length && columns.every(Array.isArray)) return { type: "application/json", words: "JSON columns", rows: columns[0].length };
      return { type: "application/x-ndjson", words: "a JSON line", rows: 1, body: JSON.stringify(whole) };
    } catch { return { type: "application/x-ndjson", words: "JSON lines", rows: lines.length }; }
  }
  const lines = trimmed.split("\n");
  if (lines.length < 2) return { wrong: "CSV needs a header line and at least one row." };
  return { type: "text/csv", words: "CSV", rows: lines.length - 1 };
}

export class Pusher {
  constructor(onSample) {
    this.dialog = $("pusher");
    this.text = $("rows");
    this.stream = $("push-stream");
    this.usual = "s"; // where rows go if no stream is named
    this.look = later(150, () => this.describe());
    this.text.addEventListener("input", () => { this.key = null; this.look(); });
    $("push-file").addEventListener("change", () => this.read());
    $("push-sample").addEventListener("click", () => { this.dialog.close(); onSample(); });
    this.dialog.querySelector("form").addEventListener("submit", (event) => {
      if (event.submitter && event.submitter.value === "push") { event.preventDefault(); this.push(); }
    });
    this.stream.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
    for (const kind of ["dragover", "drop"]) this.text.addEventListener(kind, (event) => { if (event.dataTransfer?.files.length || kind === "dragover") event.preventDefault(); });
    this.text.addEventListener("drop", (event) => { const [file] = event.dataTransfer.files; if (file) this.load(file); });
  }

  async open() {
    this.dialog.showModal();
    this.text.focus();
    this.describe();
    let streams = [];
    try { streams = (await ask("/api/streams")).streams; } catch { /* any name will do */ }
    $("push-streams").replaceChildren(...streams.map((stream) => el("option", { value: stream.name })));
    this.usual = (streams.find((stream) => stream.rows > 0) || streams[0])?.name || "s";
    this.stream.placeholder = this.usual;
    // never while a person types: the text would be appended
    if (!this.stream.value && document.activeElement !== this.stream) this.stream.value = this.usual;
    const first = streams.find((stream) => stream.name === (this.stream.value || this.usual) && stream.columns.length);
    const names = first ? first.columns.map((column) => column.name).join(",") : "name,x";
    this.text.placeholder = first ? `${names}\n…` : "name,x\nfirst,3\nsecond,5";
  }

  async read() {
    const [file] = $("push-file").files;
    if (file) await this.load(file);
  }

  async load(file) {
    this.text.value = await file.text();
    this.key = null;
    this.describe();
  }

  describe() {
    const found = kindOf(this.text.value);
    this.say(found.wrong ? "bad" : "", found.wrong !== undefined ? found.wrong : `${found.words}, ${count(found.rows)} ${found.rows === 1 ? "row" : "rows"}`);
    $("push").disabled = found.wrong !== undefined;
  }

  say(kind, text) {
    $("push-word").dataset.kind = kind;
    $("push-word").textContent = text;
  }

  async push() {
    this.look.cancel();
    const found = kindOf(this.text.value);
    if (found.wrong !== undefined) return;
    // the same rows under the same key are taken once, should the answer get lost on its way
    this.key ||= crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
    $("push").disabled = true;
    try {
      const done = await patiently(ask(rowsPath(this.stream.value.trim() || this.usual), { method: "POST", body: found.body || this.text.value.trim(), type: found.type, key: this.key }), () => this.say("", COMPILING));
      this.key = null;
      const changes = `${count(done.changes)} ${done.changes === 1 ? "change" : "changes"}`;
      const pushed = `${count(done.rows)} ${done.rows === 1 ? "row" : "rows"} pushed`;
      if (done.rejected) this.say("bad", `${pushed}, ${count(done.rejected)} rejected${await lastReason()}; ${changes}.`);
      else this.say("good", `${pushed}; ${changes}.`);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.say("bad", error.message);
    } finally {
      $("push").disabled = false;
    }
  }
}

/** Why the latest row was rejected. */
async function lastReason() {
  try {
    const { rejects } = await ask("/api/rejects?limit=1");
    return rejects.length ? ` (${rejects.at(-1).reason}: ${rejects.at(-1).detail})` : "";
  } catch { return ""; }
}
