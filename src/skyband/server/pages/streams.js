// The streams: where each stands in time, what came in the last minute, and what is off.

import { $, el, say } from "./dom.js";
import { count, seconds, value } from "./format.js";

const MOST = 8; // streams at once: those that something is wrong with come first
const LATE = 2; // seconds behind the clock that are worth no word
const RECENT = 600; // seconds for which a notice is shown
const RAW = 160; // characters of an example

const lines = new Map();

/** Draw the streams. Texts that are the same stay untouched. */
export function drawStreams(streams) {
  const shown = [...streams].sort((a, b) => grade(b) - grade(a)).slice(0, MOST);
  $("streams").hidden = !shown.length;
  const names = new Set(shown.map((stream) => stream.name));
  for (const [name, line] of lines) if (!names.has(name)) { line.node.remove(); lines.delete(name); }
  const list = $("stream-list");
  shown.forEach((stream, i) => {
    if (!lines.has(stream.name)) lines.set(stream.name, makeLine());
    const line = lines.get(stream.name);
    if (list.children[i] !== line.node) list.insertBefore(line.node, list.children[i] || null);
    fill(line, stream);
  });
  const more = streams.length - shown.length;
  say($("more-streams"), more > 0 ? `and ${count(more)} more, of which nothing is wrong` : "");
}

/** Notices of late; that all rows of a step were rejected is seen from the rejects, while these are shown. */
const recent = ({ notices, last_minute: lately }) => notices.filter((each) => each.seconds !== null && each.seconds < RECENT && !(lately.rejected && each.notice === "all rejected"));

const grade = (stream) => (stream.warning ? 3 : recent(stream).length ? 2 : stream.last_minute.rejected ? 1 : 0);

function makeLine() {
  const [name, time, rows, rejects, waiting] = ["name", "time", "rows", "rejects", "waiting"].map((part) => el("span", { class: `stream-${part}` }));
  const words = el("p", { class: "stream-words" });
  const examples = el("ul", { class: "stream-examples" });
  const node = el("li", { class: "stream" }, el("div", { class: "stream-line" }, el("i", { class: "lamp", "aria-hidden": "true" }), name, time, rows, rejects, waiting), words, examples);
  return { node, name, time, rows, rejects, waiting, words, examples, said: "" };
}

function fill(line, stream) {
  const { last_minute: lately } = stream;
  const notices = recent(stream);
  line.node.dataset.state = stream.warning ? "off" : notices.length ? "odd" : "fine";
  line.node.dataset.stream = stream.name;
  say(line.name, stream.name || "the stream");
  say(line.time, timeOf(stream));
  say(line.rows, `${count(lately.accepted)} ${lately.accepted === 1 ? "row" : "rows"} in the last minute`);
  say(line.rejects, rejectsOf(lately));
  say(line.waiting, stream.waiting ? `${count(stream.waiting)} waiting, stamped far ahead` : "");
  say(line.words, stream.warning || "");
  const said = JSON.stringify([lately.rejects, notices.map((each) => [each.notice, each.column, each.rows, each.hint])]);
  if (said === line.said) return;
  line.node.toggleAttribute("data-words", Boolean(lately.rejected || notices.length));
  line.said = said;
  line.examples.replaceChildren(...notices.map(notice), ...lately.rejects.filter((each) => each.seq !== null).map(example));
}

function rejectsOf({ rejected, rejects }) {
  if (!rejected) return "";
  const reasons = rejects.length === 1 ? ` as ${rejects[0].reason}` : `: ${rejects.map((each) => `${count(each.rows)} ${each.reason}`).join(", ")}`;
  return `${count(rejected)} rejected${reasons}`;
}

const example = (each) => el("li", {}, el("b", {}, each.reason), ` row ${count(each.seq)}: ${each.detail} `, el("code", {}, each.raw.length > RAW ? `${each.raw.slice(0, RAW)}…` : each.raw));

const notice = (each) => el("li", { class: "stream-notice" }, el("b", {}, each.notice), ` ${each.column ? `${each.column}: ` : ""}${each.hint} (${count(each.rows)} ${each.rows === 1 ? "row" : "rows"})`);

/** Its time, and how far that is behind the clock. */
function timeOf(stream) {
  if (stream.time === null) return "";
  if (stream.latest === null) return "no time yet";
  const { behind } = stream;
  const at = behind === null ? value(stream.latest) : dateOf(stream.latest, behind);
  if (behind === null) return `time ${at}`;
  if (Math.abs(behind) < LATE) return `time ${at}, with the clock`;
  return `time ${at}, ${seconds(Math.abs(behind))} ${behind > 0 ? "behind" : "ahead of"} the clock`;
}

/** A time of today without its date; a number of seconds as the date that it is. */
function dateOf(latest, behind) {
  const at = new Date(Date.now() - 1000 * behind).toISOString();
  const text = typeof latest === "number" ? at : latest;
  return text.slice(0, 10) === new Date().toISOString().slice(0, 10) ? value(text) : `${text.slice(0, 10)} ${value(text)}`;
}
