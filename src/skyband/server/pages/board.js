// A leaderboard that the eye can follow: lines move to their new places, and what happened to them can be seen
// for a few seconds. The lines stand in the table in their order, whatever they look like on their way.

import { calm, el, say } from "./dom.js";
import { column, count, hue, keyOf, shownColumns, value } from "./format.js";

const TRACE = 3000; // milliseconds that a move can be seen
const GLIDE = 420; // milliseconds that it takes
const FADE = 1600; // milliseconds for which a new line is coloured

const GREAT = /^-?\d{16,20}$/; // a whole number that JavaScript would round comes as a text

/** How wide numbers of so many digits are, in rem. A number that is cut off is another number. */
const widthOf = (texts, most) => Math.min(most, 1 + 0.65 * Math.max(0, ...texts.map((text) => text.length)));

const columnTexts = (values) => (values.some((v) => typeof v === "number") ? column(values.map((v) => (typeof v === "number" ? v : null))).map((text, i) => (typeof values[i] === "number" ? text : value(values[i]))) : values.map(value));

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
    this.width = 0; // of the screen, when a line was measured last
    this.tall = 0; // that line
    this.head = el("thead");
    this.body = el("tbody");
    this.foot = el("p", { class: "more" });
    this.node = el("div", { class: "board" }, el("table", {}, this.head, this.body), this.foot);
  }

  /** The answer at this moment. Called a few times a second; does nothing if there is nothing to do. */
  update(top, now) {
    if (top === this.top && !this.alive) return;
    const fresh = top !== this.top;
    this.top = top;
    if (fresh) this.place(top, now);
    this.alive = false;
    for (const line of this.lines.values()) this.mark(line, now);
  }

  place(top, now) {
    const names = this.columns(top);
    const numeric = names.map((name) => top.rows.some((row) => typeof row[name] === "number" || GREAT.test(row[name])));
    if (JSON.stringify([names, numeric]) !== this.names) this.begin(names, numeric);
    const rows = top.rows.slice(0, this.limit);
    const texts = names.map((name) => columnTexts(rows.map((row) => row[name])));
    const scores = column(rows.map((row) => row.score));
    // an infinite score comes as a text
    let best = Math.max(...rows.map((row) => Math.abs(row.score)).filter(Number.isFinite), 0);
    if (rows.length > 1 && rows[0].score < rows.at(-1).score) best = 0; // the least is the best: a long bar would say otherwise
    texts.forEach((column, i) => { if (numeric[i]) this.widen(i + 2, widthOf(column, innerWidth > 620 ? 14 : 6.4) + (i ? 0 : 1.2)); }); // and the dot
    this.widen(names.length + 2, widthOf(scores, 11));
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
        if (line.cells[i].textContent === column[index]) return;
        line.cells[i].textContent = line.cells[i].title = column[index]; // what is cut off can be read there
      });
      if (line.node === at) at = at.nextElementSibling;
      else this.body.insertBefore(line.node, at);
    });
    for (const line of before.values()) line.node.remove();
    const more = (top.total ?? top.rows.length) - rows.length;
    say(this.foot, more > 0 ? `and ${count(more)} more` : rows.length ? "" : "No rows in the window yet.");
  }

  /** Make a column wide enough for its numbers, once: one that swells and shrinks with them would be no rest to the eye. */
  widen(place, width) {
    if (width <= (this.widths.get(place) ?? 6.4)) return;
    this.widths.set(place, width);
    this.head.rows[0].cells[place].style.width = `${width}rem`;
  }

  /** Of a line. Asking for it makes the browser lay out the page, so it is asked once for each width. */
  height() {
    if ((this.width !== innerWidth || !this.tall) && this.body.firstElementChild) {
      this.width = innerWidth;
      this.tall = this.body.firstElementChild.offsetHeight;
    }
    return this.tall;
  }

  /** The columns to show: not the score once more, under the name that the query gave it. */
  columns(top) {
    const same = (name) => top.rows.length > 0 && top.rows.every((row) => row[name] === row.score);
    return shownColumns(top.columns).filter((name) => !same(name)).slice(0, this.most);
  }

  begin(names, numeric) {
    this.names = JSON.stringify([names, numeric]);
    this.numeric = numeric;
    this.widths = new Map(); // of columns that need more than they have by themselves
    const cells = names.map((name, i) => el("th", { scope: "col", class: `c${i}${numeric[i] ? " number" : ""}` }, name));
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
