// Numbers and times as a person reads them while they change: few digits, always as wide.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const exact = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });

export const count = (n) => (n === null || n === undefined ? "–" : whole.format(n));
export const short = (n) => (n === null || n === undefined ? "–" : Math.abs(n) < 10000 ? whole.format(n) : compact.format(n));

export function share(part) {
  if (part === null || part === undefined || !Number.isFinite(part)) return "–";
  const percent = 100 * part;
  // 99.96 must not be shown as 100: that would say that all were
  const digits = percent > 99 && percent < 100 ? 2 : 1;
  const shown = Math.min(percent, percent < 100 ? 99.99 : 100);
  return `${shown.toFixed(digits)} %`;
}

export function milliseconds(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 100) return `${ms.toPrecision(2)} ms`;
  return ms < 10000 ? `${whole.format(ms)} ms` : `${(ms / 1000).toPrecision(3)} s`;
}

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const units = ["bytes", "kB", "MB", "GB"];
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) { n /= 1000; unit += 1; }
  return `${unit === 0 ? whole.format(n) : n.toPrecision(3)} ${units[unit]}`;
}

const TIME = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:?\d\d)?$/;

/** A value of a row. */
export function value(v) {
  if (v === null || v === undefined) return "–";
  if (typeof v === "number") return Number.isSafeInteger(v) ? whole.format(v) : number(v);
  if (typeof v === "boolean") return v ? "yes" : "no";
  if (typeof v === "string") {
    const found = TIME.exec(v);
    return found ? `${found[2]}${(found[3] || "").slice(0, 2)}` : v;
  }
  return JSON.stringify(v);
}

export function number(v) {
  if (v === null || v === undefined) return "–";
  if (!Number.isFinite(v)) return v > 0 ? "∞" : v < 0 ? "−∞" : "–";
  const size = Math.abs(v);
  if (size !== 0 && (size >= 1e12 || size < 1e-4)) return v.toExponential(3);
  return exact.format(v);
}

/** Scores of one column with one number of digits after the point, so that they line up. */
export function column(values) {
  const known = values.filter((v) => typeof v === "number" && Number.isFinite(v));
  const largest = Math.max(0, ...known.map(Math.abs));
  const wholes = known.every(Number.isSafeInteger); // of which a digit left out makes another one: an id, a time
  if (!wholes && (largest >= 1e12 || (largest > 0 && largest < 1e-3))) return values.map((v) => number(v));
  const digits = wholes ? 0 : largest >= 10000 ? 0 : largest >= 100 ? 1 : largest >= 1 ? 3 : 5;
  const format = new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return values.map((v) => (typeof v === "number" && Number.isFinite(v) ? format.format(v) : number(v)));
}

export function seconds(s) {
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} days`;
}

const NOT_SHOWN = new Set(["rank", "score", "seq", "seq_b"]);

export const shownColumns = (columns) => columns.filter((name) => !NOT_SHOWN.has(name));

/** What makes a line of an answer the same line in the next one: its row or rows, or its object. */
export function keyOf(row, columns) {
  if (row.seq !== null && row.seq !== undefined) return row.seq_b === null || row.seq_b === undefined ? `${row.seq}` : `${row.seq}:${row.seq_b}`;
  const texts = shownColumns(columns).filter((name) => typeof row[name] === "string");
  const names = texts.length ? texts : shownColumns(columns).slice(0, 1);
  return JSON.stringify(names.map((name) => row[name]));
}

/** A short name for a line: its texts, or its first value. */
export function labelOf(row, columns) {
  const shown = shownColumns(columns);
  const texts = shown.filter((name) => typeof row[name] === "string" && !TIME.test(row[name]) && row[name] !== "");
  if (texts.length) return texts.slice(0, 2).map((name) => row[name]).join(" · ");
  if (shown.length) return `${shown[0]} ${value(row[shown[0]])}`;
  return row.seq === null || row.seq === undefined ? `rank ${row.rank}` : `row ${row.seq}`;
}

const hues = new Map();
let nextHue = 0;

/** One of eight hues, the same for a key wherever it is shown: in turn, so that neighbours differ. */
export function hue(key) {
  let found = hues.get(key);
  if (found === undefined) {
    found = nextHue;
    nextHue = (nextHue + 1) % 8;
    hues.set(key, found);
    if (hues.size > 5000) hues.delete(hues.keys().next().value); // the oldest
  }
  return found;
}

export const brief = (v) => (v === null || v === undefined ? "–" : Math.abs(v) >= 10000 ? whole.format(v) : Number.isFinite(v) ? String(Number(v.toPrecision(4))) : number(v));
