// Ranks over time: one line for each row that was among the first, bent where it changed its place.

import { el, say, svg } from "./dom.js";
import { hue, keyOf, labelOf } from "./format.js";

const SPAN = 60000; // milliseconds
const RANKS = 10;
const APART = 500; // milliseconds between two moments, at least
const LINES = 240; // drawn at once

/** What was seen of one query: at which moment who had which rank. */
export class History {
  constructor() {
    this.moments = [];
    this.labels = new Map();
    this.last = "";
  }

  note(top, now) {
    const keys = top.rows.slice(0, RANKS).map((row) => {
      const key = keyOf(row, top.columns);
      if (!this.labels.has(key)) this.labels.set(key, labelOf(row, top.columns));
      return key;
    });
    const said = keys.join("\n");
    if (said !== this.last) {
      this.last = said;
      const last = this.moments.at(-1);
      if (this.moments.length > 1 && now - last.at < APART) last.keys = keys;
      else this.moments.push({ at: now, keys });
    }
    while (this.moments.length > 1 && this.moments[1].at < now - SPAN) this.moments.shift();
    if (this.labels.size > 4000) {
      const live = new Set(this.moments.flatMap((moment) => moment.keys));
      for (const key of this.labels.keys()) if (!live.has(key)) this.labels.delete(key);
    }
  }
}

/** For each key the stretches in which it was there: lists of [moment, rank]. */
function stretches(moments, now) {
  const open = new Map();
  const done = [];
  for (const { at, keys } of moments) {
    const there = new Set(keys);
    for (const [key, points] of open) {
      if (!there.has(key)) { points.end = at; done.push([key, points]); open.delete(key); }
    }
    keys.forEach((key, index) => {
      if (!open.has(key)) open.set(key, []);
      const points = open.get(key);
      if (!points.length || points.at(-1)[1] !== index + 1) points.push([at, index + 1]);
    });
  }
  for (const [key, points] of open) { points.end = now; points.open = true; done.push([key, points]); }
  return done.slice(-LINES);
}

export class RankChart {
  constructor(node) {
    this.node = node;
    this.note = el("p", { class: "more" }, "");
    this.lines = svg("g");
    this.grid = svg("g", { class: "grid" });
    this.ends = svg("g");
    this.svg = svg("svg", { role: "img" }, this.grid, this.lines, this.ends);
    node.replaceChildren(this.svg, this.note);
    this.paths = new Map();
    this.drawn = -Infinity;
  }

  clear() {
    this.drawn = -Infinity;
    this.lines.replaceChildren();
    this.ends.replaceChildren();
    this.paths.clear();
  }

  draw(history, now) {
    if (now - this.drawn < APART) return;
    this.drawn = now;
    const width = Math.max(240, this.node.clientWidth);
    const ranks = Math.max(1, ...history.moments.map((moment) => moment.keys.length));
    const row = 24, head = 14, names = Math.min(150, width * 0.34), left = 22;
    const height = head + ranks * row + 18;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.style.height = `${height}px`;
    const right = width - names;
    // before a minute has been seen, what there is takes the room
    const begun = history.moments.length ? history.moments[0].at : now;
    const span = Math.min(SPAN, Math.max(10000, now - begun));
    const x = (at) => left + ((right - left) * Math.max(0, at - (now - span))) / span;
    const y = (rank) => head + (rank - 0.5) * row;
    this.drawGrid({ ranks, left, right, height, y, span });
    this.drawLines(stretches(history.moments, now), history, { x, y, right, width });
    const changes = Math.max(0, history.moments.length - 1);
    this.svg.setAttribute("aria-label", `Ranks of the first ${ranks} over the last ${Math.round(span / 1000)} seconds, ${changes} changes`);
    say(this.note, changes ? "" : "A line bends where a row changes its place; so far none has.");
  }

  drawGrid({ ranks, left, right, height, y, span }) {
    const asked = `${ranks} ${Math.round(right)} ${Math.round(span / 1000)}`;
    if (this.asked === asked) return;
    this.asked = asked;
    const parts = [];
    for (let rank = 1; rank <= ranks; rank += 1) {
      parts.push(svg("line", { x1: left, x2: right, y1: y(rank), y2: y(rank) }));
      const text = svg("text", { x: left - 8, y: y(rank) + 4, "text-anchor": "end" });
      text.textContent = String(rank);
      parts.push(text);
    }
    const ago = svg("text", { x: left, y: height - 3 });
    ago.textContent = `${Math.round(span / 1000)} s ago`;
    const here = svg("text", { x: right, y: height - 3, "text-anchor": "end" });
    here.textContent = "now";
    this.grid.replaceChildren(...parts, ago, here);
  }

  drawLines(found, history, { x, y, right, width }) {
    const used = new Set();
    const ends = [];
    for (const [key, points] of found) {
      const name = `${key} ${points[0][0]}`;
      used.add(name);
      let path = this.paths.get(name);
      if (!path) {
        path = svg("path", { class: "rank-line", "data-hue": hue(key) });
        const title = svg("title");
        title.textContent = history.labels.get(key) || key;
        path.append(title);
        this.lines.append(path);
        this.paths.set(name, path);
      }
      path.setAttribute("d", route(points, x, y));
      path.classList.toggle("gone", !points.open);
      if (points.open) ends.push([key, points.at(-1)[1]]);
    }
    for (const [name, path] of this.paths) {
      if (!used.has(name)) { path.remove(); this.paths.delete(name); }
    }
    this.drawEnds(ends, history, { y, right, width });
  }

  drawEnds(ends, history, { y, right, width }) {
    ends.sort((a, b) => a[1] - b[1]);
    while (this.ends.childElementCount > ends.length) this.ends.lastElementChild.remove();
    ends.forEach(([key, rank], i) => {
      let group = this.ends.children[i];
      if (!group) {
        group = svg("g", {}, svg("circle", { r: 4 }), svg("text"));
        this.ends.append(group);
      }
      group.dataset.hue = hue(key);
      const [dot, text] = group.children;
      dot.setAttribute("cx", right);
      dot.setAttribute("cy", y(rank));
      text.setAttribute("x", right + 10);
      text.setAttribute("y", y(rank) + 4);
      const most = Math.floor((width - right - 12) / 6.6);
      const label = history.labels.get(key) || key;
      say(text, label.length > most ? `${label.slice(0, Math.max(1, most - 1))}…` : label);
    });
  }
}

/** Level while a rank is held, and an easy bend to the next. */
function route(points, x, y) {
  let d = "";
  points.forEach(([at, rank], i) => {
    const px = x(at), py = y(rank);
    if (i === 0) { d += `M${px.toFixed(1)},${py}`; return; }
    const before = y(points[i - 1][1]);
    const start = Math.max(x(points[i - 1][0]), px - 10);
    const middle = (start + px) / 2;
    d += `H${start.toFixed(1)}C${middle.toFixed(1)},${before} ${middle.toFixed(1)},${py} ${px.toFixed(1)},${py}`;
  });
  return `${d}H${x(points.end).toFixed(1)}`;
}
