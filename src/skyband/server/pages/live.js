// The latest state, as it comes. Connects again by itself, sooner or later, and says so meanwhile.

import { token } from "./api.js";

const SOONEST = 500;
const LATEST = 15000;

const encoded = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

export class Live {
  /** onState(state) with each state, onStatus("live" | "waiting" | "token", seconds) when the connection changes. */
  constructor(onState, onStatus) {
    this.onState = onState;
    this.onStatus = onStatus;
    this.wait = SOONEST;
    this.socket = null;
    this.timer = 0;
    this.shown = null;
    addEventListener("online", () => this.connect());
    document.addEventListener("visibilitychange", () => { if (!document.hidden && !this.socket) this.connect(); });
  }

  connect() {
    clearTimeout(this.timer);
    if (this.socket) { this.socket.onclose = null; this.socket.close(); }
    const protocols = ["skyband"];
    if (token() !== null) protocols.push(`token.${encoded(token())}`);
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/api/live`, protocols);
    this.socket = socket;
    socket.onopen = () => { if (this.shown) this.send({ show: this.shown }); };
    socket.onmessage = (event) => {
      this.wait = SOONEST;
      const state = JSON.parse(event.data);
      this.onStatus("live", 0);
      this.onState(state);
    };
    socket.onclose = (event) => {
      this.socket = null;
      if (event.code === 4401 || event.code === 4403) { this.onStatus("token", 0); return; }
      this.again();
    };
  }

  again() {
    const wait = this.wait * (0.8 + 0.4 * Math.random());
    this.wait = Math.min(LATEST, this.wait * 1.7);
    this.onStatus("waiting", wait / 1000);
    this.timer = setTimeout(() => this.connect(), wait);
  }

  stop() {
    clearTimeout(this.timer);
    if (this.socket) { this.socket.onclose = null; this.socket.close(); this.socket = null; }
  }

  /** Whose answers to send. */
  show(names) {
    const asked = JSON.stringify(names);
    if (asked === JSON.stringify(this.shown)) return;
    this.shown = names;
    this.send({ show: names });
  }

  /** The state has been drawn: the next one, please. A hidden page says nothing and is sent little. */
  seen(offset) { this.send({ seen: offset }); }

  send(word) {
    if (this.socket && this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(word));
  }
}
