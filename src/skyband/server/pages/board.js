// A leaderboard that the eye can follow: lines move to their new places, and what happened to them can be seen
// for a few seconds. The lines stand in the table in their order, whatever they look like on their way.

import { calm, el, say } from "./dom.js";
import { column, count, hue, keyOf, shownColumns, value } from "./format.js";

const TRACE = 3000; // milliseconds that a move can be seen
const GLIDE = 420; // milliseconds that it takes
const FADE = 1600; // milliseconds for which a new line is coloured

const GREAT = /^-?\d{16,20}$/; // a whole number that JavaScript would round comes as a text

const PADDING = 12; // pixels beside a text
const DOT = 16; // the mark before the first column
const STEP = 14; // widths grow by so many pixels at least: a column that grew with each digit would be no rest to the eye
const LEAST = 44; // pixels of a column that is cut

const ruler = document.createElement("canvas").getContext("2d");

/** How wide the longest of some texts is, in pixels. */
const widest = (texts, font) => {
  ruler.font = font;
  const long = 0.6 * Math.max(...texts.map((text) => text.length)); // a wide letter is less than twice as wide as most
  return Math.max(0, ...texts.filter((text) => text.length >= long).map((text) => ruler.measureText(text).width));
};

/** Columns of a pair as one: both rows' x stand one above the other. [["a.x", "b.x"], ["a.y"]] */
function together(names) {
  const found = new Map();
  for (const name of names) {
    const own = /^[ab]\.(.+)$/.exec(name);
    const key = own ? `of ${own[1]}` : name;
    found.set(key, [...(found.get(key) || []), name]);
  }
  return [...found.values()];
}

const columnTexts = (values) => (values.some((v) => typeof v === "number") ? column(values.map((v) => (typeof v === "number" ? v : null))).map((text, i) => (typeof values[i] === "number" ? text : value(values[i]))) : values.map(value));

/** One text, or one above the other for the two rows of a pair. What is cut off can be read in the title. */
function write(cell, texts) {
  const said = texts.join("\n");
  if (cell.title === said && cell.hasChildNodes()) return;
  cell.title = said;
  if (texts.length === 1) cell.textContent = said;
  else cell.replaceChildren(...texts.map((text) => el("span", { class: "row-of-pair" }, text)));
}

/** How many lines may be in motion at once: more than that no eye follows, and a slow machine can't draw even these.
 * Each frame of a colour that fades is painted again, so those count for as long as they last. */
export const motion = {
  most: 24,
  ends: [], // when each of those under way will have ended
  /** A moment took so long to draw: less motion at once if that was too long, more again little by little. */
  drew(milliseconds) {
    this.most = milliseconds > 120 ? 0 : Math.min(24, this.most + (milliseconds < 60 ? 3 : 0));
  },
  may(milliseconds) {
    if (calm() || document.hidden) return false;
    const now = performance.now();
    this.ends = this.ends.filter((end) => end > now);
    if (this.ends.length >= this.most) return false;
    this.ends.push(now + milliseconds);
    return true;
  },
};

export class Board {
  constructor(limit, most) {
    this.limit = limit; // lines
    this.most = most; // columns
    this.lines = new Map();
    this.names = "";
    this.started = null;
    this.top = null;
    this.alive = false; // whether some trace can still be seen
    this.seen = 0; // the width of the screen that the columns were fitted to
    this.room = 0; // pixels for columns
    this.width = 0; // of the screen, when a line was measured last
    this.tall = 0; // that line
    this.head = el("thead");
    this.body = el("tbody");
    this.foot = el("p", { class: "more" });
    this.node = el("div", { class: "board" }, el("table", {}, this.head, this.body), this.foot);
  }

  /** The answer at this moment. Called a few times a second; does nothing if there is nothing to do. */
  update(top, now) {
    const fresh = top !== this.top || this.seen !== innerWidth;
    if (!fresh && !this.alive) return;
    this.top = top;
    if (fresh) this.place(top, now);
    this.alive = false;
    for (const line of this.lines.values()) this.mark(line, now);
  }

  place(top, now) {
    const names = this.columns(top);
    const numeric = names.map((each) => each.every((name) => top.rows.some((row) => typeof row[name] === "number" || GREAT.test(row[name]))));
    if (JSON.stringify([names, numeric]) !== this.names) this.begin(names, numeric);
    const rows = top.rows.slice(0, this.limit);
    // of each column, of each row, the text of each of the pair's rows
    const parts = names.map((each) => each.map((name) => columnTexts(rows.map((row) => row[name]))));
    const texts = parts.map((each) => rows.map((_, i) => each.map((column) => column[i])));
    const scores = column(rows.map((row) => row.score));
    // an infinite score comes as a text
    let best = Math.max(...rows.map((row) => Math.abs(row.score)).filter(Number.isFinite), 0);
    if (rows.length > 1 && rows[0].score < rows.at(-1).score) best = 0; // the least is the best: a long bar would say otherwise
    this.fit(names, parts, scores);
    const first = this.started === null;
    if (first && rows.length) this.started = now;
    const before = this.lines;
    this.lines = new Map();
    const height = this.height();
    let at = this.body.firstElementChild;
    rows.forEach((row, index) => {
      const key = keyOf(row, top.columns);
      const rank = index + 1;
      let line = before.get(key);
      if (line) {
        before.delete(key);
        this.moved(line, rank, now, height);
      } else {
        // The first board is simply there: calling all of it new would say nothing.
        line = this.line(key, names, rank, first ? -Infinity : now);
      }
      this.lines.set(key, line);
      this.fill(line, row, scores[index], best);
      texts.forEach((column, i) => {
        write(line.cells[i], column[index]);
      });
      if (line.node === at) at = at.nextElementSibling;
      else this.body.insertBefore(line.node, at);
    });
    for (const line of before.values()) line.node.remove();
    const more = (top.total ?? top.rows.length) - rows.length;
    say(this.foot, more > 0 ? `and ${count(more)} more` : rows.length ? "" : "No rows in the window yet.");
  }

  /** Give each column the width that it needs, and cut texts only if there is no room for all. Widths only grow. */
  fit(names, parts, scores) {
    const cells = this.head.rows[0].cells;
    let changed = this.measure(names, cells);
    if (!this.room) return; // it is not on the screen yet
    const last = names.length + 2;
    const need = (place, texts, font, more) => {
      const title = widest((cells[place].title || cells[place].textContent).split("\n"), this.fonts.head);
      const width = Math.ceil(Math.max(widest(texts, font), title) + PADDING + more);
      if (width <= (this.needs.get(place) ?? 0)) return;
      this.needs.set(place, width + (this.needs.has(place) ? STEP : 0));
      changed = true;
    };
    for (const place of this.places) need(place, parts[place - 2].flat(), this.fonts.cell, place === 2 ? DOT : 0);
    need(last, scores, this.fonts.score, 0);
    if (!changed) return;
    const soft = this.places.filter((place) => !this.numeric[place - 2]);
    const firm = this.places.filter((place) => this.numeric[place - 2]);
    const given = new Map([[last, this.needs.get(last)]]);
    let left = this.room - this.needs.get(last);
    // a number that is cut off is another number: texts are cut first
    left -= this.share(firm, Math.max(0, left - LEAST * soft.length), given);
    left -= this.share(soft, Math.max(0, left), given);
    // what no column needs goes to the texts in equal parts
    for (const place of soft) given.set(place, given.get(place) + Math.max(0, Math.floor(left / soft.length)));
    for (const [place, width] of given) cells[place].style.width = `${width}px`;
  }

  /** Share some room among columns: all that it needs to each, the narrow ones first, and equal parts where it ends. */
  share(places, room, given) {
    let left = room;
    [...places].sort((a, b) => this.needs.get(a) - this.needs.get(b)).forEach((place, i) => {
      const width = Math.floor(Math.min(this.needs.get(place), left / (places.length - i)));
      given.set(place, width);
      left -= width;
    });
    return room - left;
  }

  /** See how much room there is for columns, and which of them are shown: asked once for each width of the screen. */
  measure(names, cells) {
    if (this.seen === innerWidth && this.room) return false;
    this.seen = innerWidth;
    this.room = this.node.clientWidth && this.node.clientWidth - cells[0].offsetWidth - cells[1].offsetWidth;
    this.places = names.map((_, i) => i + 2).filter((place) => getComputedStyle(cells[place]).display !== "none");
    const { fontSize, fontFamily } = getComputedStyle(this.body);
    const head = getComputedStyle(cells[0]);
    this.fonts = { cell: `${fontSize} ${fontFamily}`, head: `${head.fontWeight} ${head.fontSize} ${fontFamily}`, score: `600 ${fontSize} ${fontFamily}` };
    return true;
  }

  /** Of a line. Asking for it makes the browser lay out the page, so it is asked once for each width. */
  height() {
    if ((this.width !== innerWidth || !this.tall) && this.body.firstElementChild) {
      this.width = innerWidth;
      this.tall = this.body.firstElementChild.offsetHeight;
    }
    return this.tall;
  }

  /** The columns to show, those of a pair's two rows together: not the score once more, under the query's name for it. */
  columns(top) {
    const same = (name) => top.rows.length > 0 && top.rows.every((row) => row[name] === row.score);
    const names = shownColumns(top.columns);
    const found = top.columns.includes("seq_b") ? together(names) : names.map((name) => [name]);
    return found.filter((each) => each.length > 1 || !same(each[0])).slice(0, this.most);
  }

  begin(names, numeric) {
    this.names = JSON.stringify([names, numeric]);
    this.numeric = numeric;
    this.needs = new Map(); // pixels, by place
    this.room = this.tall = 0;
    const cells = names.map((each, i) => {
      const cell = el("th", { scope: "col", class: `c${i}${numeric[i] ? " number" : ""}` });
      write(cell, each);
      return cell;
    });
    this.head.replaceChildren(
      el("tr", {}, el("th", { scope: "col", class: "rank" }, "#"), el("th", { class: "move" }, el("span", { class: "unseen" }, "move")), ...cells, el("th", { scope: "col", class: "score" }, "score")),
    );
    this.body.replaceChildren();
    this.lines = new Map();
    this.started = null;
  }

  line(key, names, rank, entered) {
    const cells = names.map((_, i) => el("td", { class: `c${i}${this.numeric[i] ? " number" : ""}` }));
    const move = el("td", { class: "move" });
    const score = el("span");
    const bar = el("i");
    const number = el("td", { class: "rank" });
    const node = el("tr", { class: Number.isFinite(entered) && motion.may(FADE) ? "came" : null, "data-key": key, "data-hue": hue(key) }, number, move, ...cells, el("td", { class: "score" }, score, bar));
    return { node, number, move, cells, score, bar, rank, entered, moved: -Infinity, before: rank };
  }

  moved(line, rank, now, height) {
    if (line.rank === rank) return;
    if (now - line.moved >= TRACE) line.before = line.rank; // a new move, not the rest of the last one
    const way = (line.rank - rank) * height;
    line.rank = rank;
    line.moved = now;
    if (!height || !motion.may(GLIDE)) return;
    // Added to what is still under way, so that a line that turns round doesn't jump.
    line.node.animate({ transform: [`translateY(${way}px)`, "none"] }, { duration: GLIDE, easing: "cubic-bezier(.2,.7,.2,1)", composite: "add" });
  }

  fill(line, row, score, best) {
    say(line.number, String(row.rank ?? line.rank));
    say(line.score, score);
    const width = best > 0 && Number.isFinite(row.score) ? Math.round((100 * Math.abs(row.score)) / best) : 0;
    if (line.width !== width) { line.width = width; line.bar.style.width = `${width}%`; }
  }

  mark(line, now) {
    let kind = "", text = "", words = "";
    const places = line.before - line.rank;
    if (now - line.entered < TRACE) { kind = "new"; text = "new"; words = "new"; }
    else if (now - line.moved < TRACE && places) {
      kind = places > 0 ? "up" : "down";
      text = `${places > 0 ? "▲" : "▼"}${Math.abs(places)}`;
      words = `${kind} ${Math.abs(places)}`;
    }
    if (kind) this.alive = true;
    say(line.move, text);
    if (line.move.dataset.kind !== kind) {
      line.move.dataset.kind = kind;
      if (words) line.move.setAttribute("aria-label", words);
      else line.move.removeAttribute("aria-label");
    }
    const since = Math.min(now - line.entered, now - line.moved);
    const fresh = !kind ? "" : since < TRACE / 3 ? "1" : since < (2 * TRACE) / 3 ? "0.75" : "0.5";
    if (line.fresh !== fresh) { line.fresh = fresh; line.move.style.opacity = fresh; }
  }
}
