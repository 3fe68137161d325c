// Building the page. Whatever comes from users or rows goes in as text, never as markup.

export const $ = (id) => document.getElementById(id);

/** An element: el("td", {class: "score"}, "12"). Handlers are given as onclick and the like. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, props = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

/** Set a text only if it is another one: untouched text costs no layout. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function later(wait, act) {
  let timer = 0;
  const call = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...args), wait);
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}

/** Wait for something, and say so if it takes long. */
export async function patiently(promise, act) {
  const timer = setTimeout(act, 1500);
  try { return await promise; } finally { clearTimeout(timer); }
}

export const COMPILING = "The engine compiles its loops for the first rows of a kind, once on a machine: this takes some seconds.";

/** Announce something to people who don't see the screen. */
export function announce(text) {
  $("announced").textContent = text;
}

const still = matchMedia("(prefers-reduced-motion: reduce)");

/** Whether the person wants no motion. */
export const calm = () => still.matches;

/** A colour of the theme, as the style sheet has it now. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
