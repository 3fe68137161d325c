// The page as a whole: what has come from the server, what is shown of it, and when it is drawn.
//
// A state may come ten times a second. It is kept, and the newest one is drawn with the next frame of the screen; the
// leaderboards move four times a second at most, as fast as an eye follows, some of them in each frame so that none
// takes long. Whatever was not drawn was not needed.

import { ask, keepToken, onTokenWanted, token } from "./api.js";
import { Board, motion } from "./board.js";
import { Detail } from "./detail.js";
import { $, el, say } from "./dom.js";
import { Editor } from "./editor.js";
import { count } from "./format.js";
import { Live } from "./live.js";
import { Pusher } from "./push.js";
import { History } from "./ranks.js";
import { Sample } from "./sample.js";
import { drawStreams } from "./streams.js";
import { drawTiles } from "./tiles.js";

const MOVE = 250; // milliseconds between two moves of the leaderboards
const CARDS = 12; // leaderboards at once
const LINES = 10; // in each
const BUSY = 4000; // milliseconds without a word
const ROOM = 8; // milliseconds of a frame for leaderboards

const allowed = { admin: true, push: true };
let settings = { time: null, role: "admin" };
let state = null; // the newest
let drawn = null; // the one on the screen
let waiting = false; // for a frame
let moved = -Infinity;
const cards = new Map();
const histories = new Map();

let heard = -Infinity; // when the newest state came

const live = new Live((fresh) => { state = fresh; heard = performance.now(); wake(); }, status);
const detail = new Detail(allowed);
const editor = new Editor((made) => { live.show(null); location.hash = `#/query/${encodeURIComponent(made.name)}`; });
const sample = new Sample((running, words, wrong) => {
  $("stop-sample").hidden = !running;
  notice(words, wrong ? "bad" : "");
});
const pusher = new Pusher(() => startSample());

// -- drawing ---------------------------------------------------------------------------------------------------

function wake() {
  if (waiting) return;
  waiting = true;
  const draw = (now) => {
    if (!waiting) return;
    waiting = false;
    clearTimeout(late);
    frame(now);
  };
  // a page that is covered, or a machine that is very busy, may get no frames: then it is drawn a little later
  const late = setTimeout(() => draw(performance.now()), 1000);
  requestAnimationFrame(draw);
}

function frame(now) {
  if (!state) return;
  if (state !== drawn) {
    drawn = state;
    drawTiles(state.stats || {});
    drawStreams(state.streams || []);
    live.seen(state.offset);
  }
  if (now - moved < MOVE) { setTimeout(wake, MOVE); return; }
  moved = now;
  const began = performance.now();
  move(now);
  requestAnimationFrame(() => motion.drew(performance.now() - began));
}

/** Leaderboards, ranks, and which of the three views is to be seen. */
function move(now) {
  const { queries, tops } = state;
  const named = wantedQuery();
  const one = named === null ? null : queries.find((query) => query.name === named);
  const empty = one === null && queries.length === 0;
  $("empty").hidden = !(empty || named !== null && !one);
  $("overview").hidden = named !== null || empty;
  $("detail").hidden = !one;
  document.body.classList.toggle("one", Boolean(one));
  live.show(one ? [one.name] : queries.slice(0, CARDS).map((query) => query.name));
  for (const [name, top] of Object.entries(tops)) {
    if (!histories.has(name)) histories.set(name, new History());
    histories.get(name).note(top, now);
  }
  forget(queries);
  if (one) {
    if (detail.name !== one.name) { detail.open(one); document.title = `${one.name} – skyband`; }
    detail.update(tops[one.name], histories.get(one.name), now, state.offset);
    return;
  }
  if (detail.name !== null) { detail.close(); document.title = "skyband"; }
  if (named !== null) drawMissing(named);
  else if (empty) drawEmpty();
  else drawCards(queries, tops, now);
}

function forget(queries) {
  const names = new Set(queries.map((query) => query.name));
  for (const name of histories.keys()) if (!names.has(name)) histories.delete(name);
  for (const [name, card] of cards) if (!names.has(name)) { card.node.remove(); cards.delete(name); }
}

function drawCards(queries, tops, now) {
  const shown = queries.slice(0, CARDS);
  shown.forEach((query, i) => {
    let card = cards.get(query.name);
    if (!card) { card = makeCard(query); cards.set(query.name, card); }
    if ($("overview").children[i] !== card.node) $("overview").insertBefore(card.node, $("overview").children[i] || null);
    say(card.sql, query.sql);
    card.top = tops[query.name];
  });
  // who has waited longest comes first
  waits = shown.map((query) => cards.get(query.name)).filter((card) => card.top && card.near).sort((a, b) => a.drawn - b.drawn);
  drawSome(now);
  const more = queries.length - shown.length;
  let rest = $("more-cards");
  if (more > 0 && !rest) {
    rest = el("p", { id: "more-cards", class: "rest" });
    $("overview").append(rest);
  } else if (more <= 0 && rest) { rest.remove(); rest = null; }
  if (rest && rest.dataset.more !== String(more)) {
    rest.dataset.more = String(more);
    const list = queries.slice(shown.length, shown.length + 200).map((query) => el("a", { href: hashOf(query.name) }, query.name));
    rest.replaceChildren(`${count(more)} more: `, ...list.flatMap((link) => [link, " "]));
  }
}

let waits = []; // cards whose board has a newer answer
let turn = 0; // the frame in which the next of them are drawn

function drawSome(now) {
  cancelAnimationFrame(turn);
  const until = performance.now() + ROOM;
  while (waits.length && performance.now() < until) {
    const card = waits.shift();
    card.drawn = now;
    card.board.update(card.top, now);
  }
  if (waits.length) turn = requestAnimationFrame(() => drawSome(performance.now()));
}

const hashOf = (name) => `#/query/${encodeURIComponent(name)}`;

function makeCard(query) {
  const board = new Board(LINES, 3);
  const sql = el("code", { class: "sql" });
  const node = el("article", { class: "card panel" }, el("h2", {}, el("a", { href: hashOf(query.name) }, query.name)), sql, board.node);
  const card = { node, board, sql, near: true, top: null, drawn: -Infinity };
  sight.observe(node);
  seen.set(node, card);
  return card;
}

// What is far from the screen need not move.
const seen = new WeakMap();
const sight = new IntersectionObserver((entries) => { for (const entry of entries) seen.get(entry.target).near = entry.isIntersecting; }, { rootMargin: "300px" });

// -- views without an answer -----------------------------------------------------------------------------------

function drawEmpty() {
  if ($("empty").dataset.view === "empty") return;
  $("empty").dataset.view = "empty";
  const example = settings.time ? "SELECT * FROM s ORDER BY x DESC LIMIT 10 WINDOW 1 MINUTE" : "SELECT * FROM s ORDER BY x DESC LIMIT 10 WINDOW 1000 ROWS";
  const row = JSON.stringify([{ ...(settings.time ? { [settings.time]: new Date().toISOString() } : {}), name: "first", x: 3 }]);
  const line = `curl ${location.origin}/api/streams/s/rows -H 'Content-Type: application/json' -d '${row}'`;
  const able = allowed.push && allowed.admin;
  $("empty").replaceChildren(
    el("h1", {}, "Nothing is watched yet"),
    el("p", {}, "Ask once, push rows, and watch the answer move. A query begins with the rows that come after it, so ask first."),
    el("div", { class: "row" },
      el("button", { class: "primary", type: "button", id: "load-sample", disabled: !able, onclick: startSample }, "Load sample data"),
      el("button", { type: "button", disabled: !allowed.admin, onclick: () => editor.open(settings.time) }, "Write a query")),
    el("ol", { class: "steps" },
      el("li", {}, el("b", {}, "Ask"), el("code", {}, example)),
      el("li", {}, el("b", {}, "Push"), el("code", {}, line)),
      el("li", {}, el("b", {}, "Watch"), el("span", {}, "The leaderboard is here at once, and moves with every push."))),
  );
}

function drawMissing(name) {
  if ($("empty").dataset.view === `missing ${name}`) return;
  $("empty").dataset.view = `missing ${name}`;
  $("empty").replaceChildren(
    el("h1", {}, `There is no query “${name}”`),
    el("p", {}, "It may have been dropped. "),
    el("div", { class: "row" }, el("a", { class: "button", href: "#/" }, "All queries")),
  );
}

function wantedQuery() {
  const found = /^#\/query\/(.+)$/.exec(location.hash);
  if (!found) return null;
  try { return decodeURIComponent(found[1]); } catch { return found[1]; }
}

function startSample() {
  notice("");
  location.hash = "#/";
  sample.start(settings.time, allowed.admin);
}

// -- the connection --------------------------------------------------------------------------------------------

let counting = 0;

function status(kind, wait) {
  clearInterval(counting);
  const lamp = $("status");
  if (kind === "live") {
    lamp.dataset.state = "live";
    say($("status-text"), "Live");
    document.body.classList.remove("stale");
    return;
  }
  if (kind === "token") { lamp.dataset.state = "off"; say($("status-text"), "Token wanted"); wantToken(); return; }
  document.body.classList.toggle("stale", state !== null);
  lamp.dataset.state = "off";
  let left = Math.ceil(wait);
  const words = () => say($("status-text"), left > 1 ? `Disconnected, trying again in ${left} s` : "Disconnected, trying again");
  words();
  counting = setInterval(() => { left -= 1; words(); }, 1000);
  // a refused WebSocket doesn't say why: an ordinary question does
  ask("/api/settings").catch(() => {});
}

function notice(text, kind = "bad") {
  $("notice").hidden = !text;
  $("notice").dataset.kind = kind;
  say($("notice"), text);
}

// -- token, settings, rejects ----------------------------------------------------------------------------------

function wantToken(refused) {
  live.stop();
  const dialog = $("token");
  if (token() !== null) { keepToken(null); say($("token-word"), refused ? refused.message : "The server doesn't know this token."); }
  if (!dialog.open) dialog.showModal();
  $("token-text").focus();
}

$("token").addEventListener("close", () => {
  const text = $("token-text").value.trim();
  $("token-text").value = "";
  if (text) { keepToken(text); start(); }
});
$("token").addEventListener("cancel", (event) => event.preventDefault()); // there is nothing behind it
$("forget-token").addEventListener("click", () => { keepToken(null); location.reload(); });

async function start() {
  $("forget-token").hidden = token() === null;
  const asked = ask("/api/settings");
  live.connect(); // at once: the first state is on its way while the settings are
  try {
    settings = { ...settings, ...(await asked) };
  } catch (error) {
    if (error.status === 401) return; // the token's dialog is open
  }
  const closed = settings.readonly === true;
  allowed.admin = !closed && settings.role === "admin";
  allowed.push = !closed && settings.role !== "read";
  const why = closed ? "A pipeline is shown here: it has its own queries and rows." : "Your token doesn't allow this.";
  for (const [id, may] of [["open-push", allowed.push], ["open-editor", allowed.admin]]) {
    $(id).disabled = !may;
    $(id).title = may ? "" : why;
  }
  delete $("empty").dataset.view;
  wake();
}

async function openRejects() {
  $("rejects").showModal();
  const list = $("reject-list");
  list.replaceChildren("…");
  try {
    const { rejects } = await ask("/api/rejects?limit=100");
    const found = [...rejects].sort((a, b) => b.seq - a.seq).map((r) => el("div", { class: "reject" }, el("b", {}, r.reason), ` row ${count(r.seq)} of ${r.stream || "the stream"}: ${r.detail}`, el("code", {}, r.raw || "")));
    list.replaceChildren(...(found.length ? found : ["No row has been rejected."]));
  } catch (error) {
    list.replaceChildren(error.message);
  }
}

$("open-editor").addEventListener("click", () => editor.open(settings.time));
$("open-push").addEventListener("click", () => pusher.open());
$("open-rejects").addEventListener("click", openRejects);
$("stop-sample").addEventListener("click", () => sample.stop());
for (const dialog of document.querySelectorAll("dialog")) {
  // a press beside the sheet closes it, as Escape does
  dialog.addEventListener("mousedown", (event) => { if (event.target === dialog && dialog.id !== "token") dialog.close(); });
}
addEventListener("hashchange", () => { moved = -Infinity; wake(); scrollTo(0, 0); $("main").focus({ preventScroll: true }); });
setInterval(wake, MOVE); // traces fade though nothing comes
setInterval(() => {
  // a state comes every second, unless the engine is at something long
  if (document.hidden) heard = performance.now();
  else if ($("status").dataset.state === "live" && performance.now() - heard > BUSY) {
    $("status").dataset.state = "busy";
    say($("status-text"), "The engine is busy");
  }
}, 1000);
onTokenWanted(wantToken);
start();
