// The pieces of a transcript: they come while one scrolls, and a few are kept on the page.

import { fragment } from "./base.js";

export const page = document.getElementById("transcript-page");
export const chunks = document.getElementById("chunks");
const path = page.dataset.path;
const query = page.dataset.query;
/** Steps of a piece. */
export const size = Number(page.dataset.chunk);

/** Pieces that are kept on the page. */
const KEPT = 6;
/** Pixels beyond the window in which pieces are loaded. */
const AHEAD = 1200;
/** Pixels that stand for all pieces together; browsers draw no page that is much higher. */
const HEIGHT_MAX = 8_000_000;
/** What there is, and what of it is on the page: pieces one behind the other. */
export const shown = {
  total: Number(page.dataset.steps),
  loaded: [...chunks.querySelectorAll(":scope > .chunk")],
};

/** The address of something of this transcript. */
export function address(name, values) {
  const parameters = new URLSearchParams(query);
  for (const [name, value] of Object.entries(values)) parameters.set(name, value);
  return `${path}/${name}?${parameters}`;
}

/** Asks for values. */
export async function data(name, values) {
  const answer = await fetch(address(name, values), { headers: { accept: "application/json" } });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

const toast = document.getElementById("toast");
let toastTimer = 0;

/** Says something for a moment. */
export function say(sentence) {
  toast.textContent = sentence;
  toast.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { toast.hidden = true; }, 3000);
}

/** For what someone asked for: an error is said. */
export function attempt(work) {
  work().catch((error) => say(error.message));
}

// Two spacers stand for all pieces that are not on the page.

document.getElementById("paging").hidden = true;
const above = document.createElement("div");
const below = document.createElement("div");
above.className = below.className = "spacer";
chunks.prepend(above);
chunks.append(below);

/** Heights of pieces that were on the page, by their first step. */
let heights = new Map();
/** Changes whenever all pieces do. */
let generation = 0;

/** The first step of a piece. */
export const from = (chunk) => Number(chunk.dataset.from);
const last = () => Math.floor(Math.max(shown.total - 1, 0) / size) * size;

function measure() {
  for (const chunk of shown.loaded) heights.set(from(chunk), chunk.offsetHeight);
}

function average() {
  let sum = 0;
  for (const height of heights.values()) sum += height;
  return heights.size ? sum / heights.size : 2000;
}

/** Pixels of the pieces from a step to another. */
function span(begin, end) {
  const mean = average();
  let sum = 0;
  for (let at = begin; at < end; at += size) sum += heights.get(at) ?? mean;
  return sum;
}

/** How many pixels stand for one of a piece that is not on the page. */
const scale = () => Math.min(1, HEIGHT_MAX / ((average() * shown.total) / size));

function space() {
  if (!shown.loaded.length) return;
  above.style.height = `${span(0, from(shown.loaded[0])) * scale()}px`;
  below.style.height = `${span(from(shown.loaded[shown.loaded.length - 1]) + size, last() + size) * scale()}px`;
}

/** The element nearest to the top of the window, which must not move. */
export function held() {
  for (const element of chunks.querySelectorAll(".step")) {
    const box = element.getBoundingClientRect();
    if (box.bottom > 200) return { element, top: box.top };
  }
  return null;
}

export function hold(anchor) {
  if (!anchor?.element.isConnected) return;
  const moved = anchor.element.getBoundingClientRect().top - anchor.top;
  if (Math.abs(moved) > 0.5) window.scrollBy({ top: moved, behavior: "instant" });
}

/** Fetches the piece with an action or a step. */
async function load(values) {
  const found = await fragment(address("steps", values));
  const chunk = found.querySelector(".chunk");
  shown.total = Number(chunk.dataset.total);
  return chunk;
}

/** Keeps only pieces around the window. */
function forget() {
  while (shown.loaded.length > KEPT) {
    const first = shown.loaded[0].getBoundingClientRect();
    const end = shown.loaded[shown.loaded.length - 1].getBoundingClientRect();
    const chunk = -first.bottom > end.top - innerHeight ? shown.loaded.shift() : shown.loaded.pop();
    heights.set(from(chunk), chunk.offsetHeight);
    chunk.remove();
  }
}

const watchers = [];

/** Does something whenever pieces came or went. */
export function whenever(does) {
  watchers.push(does);
}

/** Looks again how high everything is, after something on the page changed; `anew`: everything did. */
export function remeasure(anew = false) {
  if (anew) heights = new Map();
  measure();
  space();
  for (const does of watchers) does();
}

/** Fetches the piece again that an element is in; what has the id stays where it is. */
export async function refresh(element, id) {
  const chunk = element.closest(".chunk");
  const fresh = await load({ from: from(chunk) });
  const top = document.getElementById(id).getBoundingClientRect().top;
  chunk.replaceWith(fresh);
  shown.loaded[shown.loaded.indexOf(chunk)] = fresh;
  settle({ element: document.getElementById(id), top });
}

let working = null;

/** Loads what is missing around the window, one piece at a time. */
export function fill() {
  working ??= fillNow().catch((error) => say(error.message)).finally(() => { working = null; });
  return working;
}

async function fillNow() {
  for (let turn = 0; turn < 12 && shown.loaded.length; turn += 1) {
    const first = shown.loaded[0];
    const end = shown.loaded[shown.loaded.length - 1];
    const top = first.getBoundingClientRect().top;
    const bottom = end.getBoundingClientRect().bottom;
    const before = generation;
    if (top > innerHeight + AHEAD || bottom < -AHEAD) {
      // Far away: whoever scrolled left all pieces behind.
      await reload({ from: at(scrollY + innerHeight / 3) }, true);
      return;
    }
    if (bottom < innerHeight + AHEAD && from(end) < last()) {
      const chunk = await load({ from: from(end) + size });
      if (before !== generation) return;
      const anchor = held();
      end.after(chunk);
      shown.loaded.push(chunk);
      settle(anchor);
    } else if (top > -AHEAD && from(first) > 0) {
      const chunk = await load({ from: from(first) - size });
      if (before !== generation) return;
      const anchor = held();
      first.before(chunk);
      shown.loaded.unshift(chunk);
      settle(anchor);
    } else {
      return;
    }
  }
}

function settle(anchor) {
  measure();
  forget();
  space();
  hold(anchor);
  for (const does of watchers) does();
}

/** The first step of the piece at a height of the document. */
function at(y) {
  let top = chunks.getBoundingClientRect().top + scrollY;
  const mean = average();
  const by = scale();
  for (let step = 0; step <= last(); step += size) {
    top += (heights.get(step) ?? mean) * by;
    if (top > y) return step;
  }
  return last();
}

/** Leaves all pieces for the one with a step or an action. */
export async function reload(values, stay = false) {
  generation += 1;
  const before = generation;
  measure();
  const chunk = await load(values);
  if (before !== generation) return false;
  const y = scrollY;
  for (const old of shown.loaded) old.remove();
  shown.loaded = [chunk];
  above.after(chunk);
  measure();
  space();
  if (stay) window.scrollTo({ top: y, behavior: "instant" });
  for (const does of watchers) does();
  return true;
}

addEventListener("scroll", () => requestAnimationFrame(fill), { passive: true });
addEventListener("resize", () => {
  remeasure(true);
  fill();
});
