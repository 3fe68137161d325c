// A made-up stream, so that there is something to look at: flows between the machines of a company. Speeds have a
// heavy tail: most are slow, a few are very fast, and one never knows when the next of those comes.

import { ask, rowsPath } from "./api.js";
import { COMPILING, patiently } from "./dom.js";

const KINDS = [
  ["web", "api", "https"], ["api", "db", "postgres"], ["api", "cache", "redis"], ["api", "queue", "kafka"], ["queue", "etl", "kafka"],
  ["etl", "lake", "s3"], ["lake", "train", "s3"], ["train", "train", "nccl"], ["db", "backup", "rsync"], ["lake", "backup", "rsync"],
];
const MACHINES = 9;
const TICK = 250;
const SECONDS = 120;
const EACH = 40; // rows a tick
export const STREAM = "flows";

function flow(time, at) {
  const [from, to, service] = KINDS[Math.floor(Math.random() * KINDS.length)];
  const source = 1 + Math.floor(Math.random() * MACHINES);
  const target = 1 + ((source + Math.floor(Math.random() * (MACHINES - 1))) % MACHINES);
  const speed = 8 / (1 - Math.random()) ** (1 / 2.6); // MB a second
  const seconds = 0.05 + Math.round(1000 * Math.exp(Math.random() * 2 - 1)) / 1000;
  const row = { source: `${from}-${source}`, target: `${to}-${target}`, service, mb: Math.round(1000 * speed * seconds) / 1000, seconds };
  return time ? { [time]: new Date(at).toISOString(), ...row } : row;
}

export const sampleQueries = (time) => [
  { name: "fastest flows", sql: `SELECT source, target, service, mb FROM ${STREAM} ORDER BY mb / seconds DESC LIMIT 10 WINDOW ${time ? "30 SECONDS" : "4000 ROWS"}` },
  { name: "busiest services", sql: `SELECT service, SUM(mb) AS total FROM ${STREAM} GROUP BY service ORDER BY SUM(mb) DESC LIMIT 6 WINDOW ${time ? "15 SECONDS" : "1500 ROWS"}` },
];

/** Pushes flows for two minutes, or until it is stopped. */
export class Sample {
  constructor(onChange) {
    this.onChange = onChange;
    this.running = false;
  }

  async start(time, admin) {
    if (this.running) return;
    this.running = true;
    this.onChange(true, "");
    try {
      if (admin) await this.askThem(time);
      await this.run(time);
      this.onChange(false, "");
    } catch (error) {
      this.onChange(false, error.message, true);
    } finally {
      this.running = false;
    }
  }

  /** Ask before pushing: a query begins with the rows that come after it. */
  async askThem(time) {
    for (const query of sampleQueries(time)) {
      try { await ask("/api/queries", { method: "POST", json: query }); } catch (error) { if (error.status !== 409) throw error; }
    }
  }

  async run(time) {
    const end = performance.now() + SECONDS * 1000;
    let at = Date.now();
    let slow = false;
    while (this.running && performance.now() < end) {
      const now = Date.now();
      const rows = Array.from({ length: EACH }, (_, i) => flow(time, at + ((now - at) * i) / EACH));
      at = now;
      await patiently(ask(rowsPath(STREAM), { method: "POST", json: rows }), () => { slow = true; this.onChange(true, COMPILING); });
      if (slow) { slow = false; this.onChange(true, ""); }
      await new Promise((done) => { setTimeout(done, TICK); });
    }
  }

  stop() { this.running = false; }
}
