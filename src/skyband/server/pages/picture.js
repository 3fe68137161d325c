// The score-time picture: the window's rows, the few that can still get into the answer, and those that are in it.
// Newest on the right, better upwards. The stairs say where it ends for the others: below them k newer rows are
// better, so nothing there can ever enter again, and nothing there is kept.

import { colour } from "./dom.js";
import { count, number, seconds } from "./format.js";

const PAD = { left: 58, right: 14, top: 14, bottom: 30 };

/** Where things are in a picture of this size, for this answer. */
export function scales(data, width, height) {
  const times = [...data.rows, ...data.candidates].map((p) => p[0]);
  const now = data.now ?? Math.max(...times, 1);
  let from = data.horizon ?? (times.length ? Math.min(...times) : now - 1);
  if (data.horizon !== null && !data.counts_rows && times.length) from = Math.max(from, Math.min(from + data.length * 0.9, Math.min(...times) - (now - Math.min(...times)) * 0.04));
  if (from >= now) from = now - 1;
  const scores = [...data.rows, ...data.candidates].map((p) => p[1]).filter(Number.isFinite).sort((a, b) => a - b);
  let low = scores[0] ?? 0, high = scores.at(-1) ?? 1;
  const middle = scores[Math.floor(scores.length / 2)] ?? 0;
  const log = low > 0 && high / middle > 12;
  const turn = log ? Math.log : (v) => v;
  if (low === high) { low -= Math.abs(low) * 0.1 || 1; high += Math.abs(high) * 0.1 || 1; }
  const room = (turn(high) - turn(low)) * 0.06;
  const least = turn(log ? Math.max(low, 1e-300) : low) - room, most = turn(high) + room;
  const up = (v) => (turn(v) - least) / (most - least);
  return {
    now, from, low, high, log, least, most, width, height,
    x: (t) => PAD.left + ((width - PAD.left - PAD.right) * (t - from)) / (now - from),
    y: (v) => { const part = data.descending ? 1 - up(v) : up(v); return PAD.top + (height - PAD.top - PAD.bottom) * part; },
  };
}

/** The stairs, newest first: at each candidate the k-th best score among it and all newer ones. */
export function stairs(data) {
  if (data.k === null || data.kind === "objects") return [];
  const better = data.descending ? (a, b) => b - a : (a, b) => a - b;
  const best = [];
  const steps = [];
  for (const [at, score] of [...data.candidates].sort((a, b) => b[0] - a[0])) {
    best.push(score);
    best.sort(better);
    if (best.length > data.k) best.pop();
    if (best.length === data.k && (!steps.length || steps.at(-1)[1] !== best[data.k - 1])) steps.push([at, best[data.k - 1]]);
  }
  return steps;
}

/** The answer when the window's edge has moved on to `edge` and no row has come. */
export function answerAt(data, edge) {
  const better = data.descending ? (a, b) => b[1] - a[1] || b[0] - a[0] : (a, b) => a[1] - b[1] || b[0] - a[0];
  const inside = data.candidates.filter((p) => p[0] >= edge).sort(better);
  return data.k === null ? inside : inside.slice(0, data.k);
}

export function draw(canvas, data, edge) {
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width || !height) return;
  const dense = Math.min(3, devicePixelRatio || 1);
  if (canvas.width !== Math.round(width * dense) || canvas.height !== Math.round(height * dense)) {
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
  }
  const g = canvas.getContext("2d");
  g.setTransform(dense, 0, 0, dense, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  const s = scales(data, width, height);
  drawAxes(g, data, s);
  g.save();
  g.beginPath();
  g.rect(PAD.left - 6, 0, width - PAD.left - PAD.right + 12, height);
  g.clip();
  drawStairs(g, data, s);
  drawDots(g, data, s, edge);
  g.restore();
  if (edge > (data.horizon ?? -Infinity)) drawEdge(g, s, edge);
}

function drawAxes(g, data, s) {
  g.strokeStyle = colour("--line");
  g.fillStyle = colour("--dim");
  g.lineWidth = 1;
  g.textBaseline = "middle";
  g.textAlign = "right";
  for (const v of ticks(s)) {
    const y = Math.round(s.y(v)) + 0.5;
    g.beginPath();
    g.moveTo(PAD.left, y);
    g.lineTo(s.width - PAD.right, y);
    g.stroke();
    g.fillText(tickText(v), PAD.left - 8, y);
  }
  g.textBaseline = "alphabetic";
  g.textAlign = "left";
  const bottom = s.height - 8;
  const back = s.now - s.from;
  g.fillText(data.unit === "time" ? `${seconds(back)} ago` : `row ${count(Math.round(s.from))}`, PAD.left, bottom);
  g.textAlign = "right";
  g.fillText(data.unit === "time" ? "now" : `row ${count(s.now)}`, s.width - PAD.right, bottom);
  if (s.log) { g.textAlign = "center"; g.fillText("logarithmic", (PAD.left + s.width - PAD.right) / 2, bottom); }
}

function ticks(s) {
  const found = [];
  if (s.log) {
    for (let power = Math.floor(Math.log10(s.low)); power <= Math.ceil(Math.log10(s.high)); power += 1) {
      for (const m of [1, 2, 5]) found.push(m * 10 ** power);
    }
    const inside = found.filter((v) => v >= s.low && v <= s.high);
    const tens = inside.filter((v) => Math.abs(Math.log10(v) % 1) < 1e-9);
    return inside.length > 7 && tens.length > 1 ? tens : inside;
  }
  const rough = (s.high - s.low) / 5;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * size).find((v) => v >= rough) || size;
  for (let v = Math.ceil(s.low / step) * step; v <= s.high + step * 1e-9; v += step) found.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return found;
}

const tight = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const tickText = (v) => (Math.abs(v) >= 1000 ? tight.format(v) : v !== 0 && Math.abs(v) < 0.001 ? v.toExponential() : number(v));

function drawStairs(g, data, s) {
  const steps = stairs(data);
  if (!steps.length) return;
  const floor = s.height - PAD.bottom;
  g.beginPath();
  g.moveTo(s.x(steps[0][0]), floor);
  steps.forEach(([at, score], i) => {
    if (i > 0) g.lineTo(s.x(at), s.y(steps[i - 1][1]));
    g.lineTo(s.x(at), s.y(score));
  });
  g.lineTo(PAD.left, s.y(steps.at(-1)[1]));
  const outline = new Path2D();
  g.lineTo(PAD.left, floor);
  g.closePath();
  g.fillStyle = colour("--shade");
  g.fill();
  outline.moveTo(s.x(steps[0][0]), floor);
  steps.forEach(([at, score], i) => {
    if (i > 0) outline.lineTo(s.x(at), s.y(steps[i - 1][1]));
    outline.lineTo(s.x(at), s.y(score));
  });
  outline.lineTo(PAD.left, s.y(steps.at(-1)[1]));
  g.strokeStyle = colour("--stairs");
  g.lineWidth = 1.25;
  g.stroke(outline);
}

function drawDots(g, data, s, edge) {
  const dot = (x, y, r) => { g.beginPath(); g.arc(x, y, r, 0, 7); g.fill(); };
  g.fillStyle = colour("--faint");
  for (const [at, score] of data.rows) if (at >= edge) dot(s.x(at), s.y(score), 1.6);
  const top = answerAt(data, edge);
  const inTop = new Set(top.map((p) => p[2]));
  const waiting = colour("--candidate"), gone = colour("--line");
  for (const [at, score, key] of data.candidates) {
    if (inTop.has(key)) continue;
    g.fillStyle = at >= edge ? waiting : gone;
    dot(s.x(at), s.y(score), 3);
  }
  const was = new Set(data.top.map((p) => p[2]));
  const accent = colour("--accent"), fresh = colour("--new"), panel = colour("--panel");
  g.textAlign = "center";
  g.textBaseline = "middle";
  top.slice(0, 50).forEach(([at, score, key], i) => {
    const x = s.x(at), y = s.y(score), numbered = top.length <= 20;
    g.fillStyle = was.has(key) ? accent : fresh;
    dot(x, y, numbered ? 8 : 4.5);
    g.strokeStyle = panel;
    g.lineWidth = 1.5;
    g.stroke();
    if (!numbered) return;
    g.fillStyle = panel;
    g.fillText(String(i + 1), x, y + 0.5);
  });
}

function drawEdge(g, s, edge) {
  const x = Math.min(s.width - PAD.right, s.x(edge));
  g.strokeStyle = colour("--new");
  g.setLineDash([4, 3]);
  g.lineWidth = 1.25;
  g.beginPath();
  g.moveTo(x, PAD.top - 6);
  g.lineTo(x, s.height - PAD.bottom);
  g.stroke();
  g.setLineDash([]);
}
