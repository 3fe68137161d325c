// The figures of the engine.

import { $, say } from "./dom.js";
import { bytes, count, milliseconds, share, short } from "./format.js";

const POINTS = 60;
const rates = [];
let last = 0;

export function drawTiles(stats) {
  say($("rate"), short(stats.rows_per_second === undefined ? null : Math.round(stats.rows_per_second)));
  say($("rows-total"), stats.rows === undefined ? "" : `${count(stats.rows)} in all`);
  spark(stats.rows_per_second);
  const latency = stats.latency_ms;
  say($("latency"), latency ? milliseconds(latency.p50) : "–");
  say($("latency-99"), latency ? `99 of 100 below ${milliseconds(latency.p99)}` : "no push yet");
  say($("pruned"), share(stats.pruned));
  drawState(stats);
  say($("open-rejects"), count(stats.rejected ?? null));
  const reasons = Object.entries(stats.rejects || {}).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  say($("reject-reasons"), reasons.length ? reasons.map(([name, n]) => `${name} ${short(n)}`).join(", ") : stats.rows ? "every row fits" : "none so far");
  say($("version"), stats.version ? `skyband ${stats.version}` : "");
}

function drawState(stats) {
  const { state_rows: kept, window_rows: window } = stats;
  say($("state"), kept === undefined ? "–" : short(kept));
  say($("state-note"), window ? `for ${short(window)} rows, ${bytes(stats.state_bytes)}` : "candidates");
  $("state-bar").style.width = window ? `${Math.min(100, Math.max(0.6, (100 * kept) / window))}%` : "0";
}

/** The rate of the last minute, a point a second. */
function spark(rate) {
  const now = performance.now();
  if (rate === undefined || now - last < 1000) return;
  last = now;
  rates.push(rate);
  if (rates.length > POINTS) rates.shift();
  const most = Math.max(...rates, 1);
  const step = 120 / (POINTS - 1);
  const start = 120 - (rates.length - 1) * step;
  const points = rates.map((r, i) => `${(start + i * step).toFixed(1)},${(22.5 - (21 * r) / most).toFixed(1)}`);
  $("rate-line").firstElementChild.setAttribute("d", rates.length > 1 ? `M${points.join("L")}` : "");
}
