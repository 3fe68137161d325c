// Asking the server. One error shape; a token where the server wants one, kept in this tab only.

const TOKEN = "skyband-token";

export function token() {
  try { return sessionStorage.getItem(TOKEN); } catch { return held; }
}

let held = null;

export function keepToken(text) {
  held = text;
  try {
    if (text === null) sessionStorage.removeItem(TOKEN);
    else sessionStorage.setItem(TOKEN, text);
  } catch { /* no storage: it lasts as long as the page */ }
}

/** What went wrong, in the server's own words. */
export class Refused extends Error {
  constructor(status, error) {
    super(error.message || `The server answered ${status}.`);
    this.status = status;
    this.code = error.code || "";
    this.where = error.where || null;
  }
}

let wanted = () => {};

/** Who asks the person for a token. */
export function onTokenWanted(act) { wanted = act; }

export async function ask(path, { method = "GET", json, body, type, key, signal } = {}) {
  const headers = {};
  const shown = token();
  if (shown !== null) headers.Authorization = `Bearer ${shown}`;
  if (json !== undefined) { headers["Content-Type"] = "application/json"; body = JSON.stringify(json); }
  if (type) headers["Content-Type"] = type;
  if (key) headers["Idempotency-Key"] = key;
  let response;
  try {
    response = await fetch(path, { method, headers, body, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { code: "unreachable", message: "The server doesn't answer. Is it still running?" });
  }
  const text = await response.text();
  let answer = {};
  try { answer = text ? JSON.parse(text) : {}; } catch { /* not ours: the status says enough */ }
  if (!response.ok) {
    const refused = new Refused(response.status, (answer && answer.error) || {});
    if (response.status === 401 && shown === token()) wanted(refused); // not of a token that another has replaced meanwhile
    throw refused;
  }
  return answer;
}

export const queryPath = (name, rest = "") => `/api/queries/${encodeURIComponent(name)}${rest}`;
export const rowsPath = (stream) => `/api/streams/${encodeURIComponent(stream)}/rows`;
