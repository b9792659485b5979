// The transcript: steps come in pieces while one scrolls, a few are kept, and everything can be done by key.

import { fragment, key } from "./base.js";

const page = document.getElementById("transcript-page");
const chunks = document.getElementById("chunks");
const path = page.dataset.path;
const query = page.dataset.query;
const size = Number(page.dataset.chunk);

/** Pieces that are kept on the page. */
const KEPT = 6;
/** Pixels beyond the window in which pieces are loaded. */
const AHEAD = 1200;
/** Pixels that stand for all pieces together; browsers draw no page that is much higher. */
const HEIGHT_MAX = 8_000_000;
/** Steps found that are kept. */
const HITS_MAX = 20_000;

let total = Number(page.dataset.steps);
let complete = page.dataset.complete === "true";

function address(name, values) {
  const parameters = new URLSearchParams(query);
  for (const [name, value] of Object.entries(values)) parameters.set(name, value);
  return `${path}/${name}?${parameters}`;
}

async function data(name, values) {
  const answer = await fetch(address(name, values), { headers: { accept: "application/json" } });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

const toast = document.getElementById("toast");
let toastTimer = 0;

function say(sentence) {
  toast.textContent = sentence;
  toast.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { toast.hidden = true; }, 3000);
}

// Pieces. `loaded` are those on the page, one behind the other; two spacers stand for all others.

document.getElementById("paging").hidden = true;
const above = document.createElement("div");
const below = document.createElement("div");
above.className = below.className = "spacer";
let loaded = [...chunks.querySelectorAll(":scope > .chunk")];
chunks.prepend(above);
chunks.append(below);

/** Heights of pieces that were on the page, by their first step. */
let heights = new Map();
/** Changes whenever all pieces do. */
let generation = 0;

const from = (chunk) => Number(chunk.dataset.from);
const last = () => Math.floor(Math.max(total - 1, 0) / size) * size;

function measure() {
  for (const chunk of loaded) heights.set(from(chunk), chunk.offsetHeight);
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
const scale = () => Math.min(1, HEIGHT_MAX / ((average() * total) / size));

function space() {
  if (!loaded.length) return;
  above.style.height = `${span(0, from(loaded[0])) * scale()}px`;
  below.style.height = `${span(from(loaded[loaded.length - 1]) + size, last() + size) * scale()}px`;
}

/** The element nearest to the top of the window, which must not move. */
function held() {
  for (const element of chunks.querySelectorAll(".step")) {
    const box = element.getBoundingClientRect();
    if (box.bottom > 200) return { element, top: box.top };
  }
  return null;
}

function hold(anchor) {
  if (!anchor?.element.isConnected) return;
  const moved = anchor.element.getBoundingClientRect().top - anchor.top;
  if (Math.abs(moved) > 0.5) window.scrollBy({ top: moved, behavior: "instant" });
}

async function load(values) {
  const found = await fragment(address("steps", values));
  const chunk = found.querySelector(".chunk");
  total = Number(chunk.dataset.total);
  return chunk;
}

/** Keeps only pieces around the window. */
function forget() {
  while (loaded.length > KEPT) {
    const first = loaded[0].getBoundingClientRect();
    const end = loaded[loaded.length - 1].getBoundingClientRect();
    const chunk = -first.bottom > end.top - innerHeight ? loaded.shift() : loaded.pop();
    heights.set(from(chunk), chunk.offsetHeight);
    chunk.remove();
  }
}

let working = null;

/** Loads what is missing around the window, one piece at a time. */
function fill() {
  working ??= fillNow().catch((error) => say(error.message)).finally(() => { working = null; });
  return working;
}

async function fillNow() {
  for (let turn = 0; turn < 12 && loaded.length; turn += 1) {
    const first = loaded[0];
    const end = loaded[loaded.length - 1];
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
      loaded.push(chunk);
      settle(anchor);
    } else if (top > -AHEAD && from(first) > 0) {
      const chunk = await load({ from: from(first) - size });
      if (before !== generation) return;
      const anchor = held();
      first.before(chunk);
      loaded.unshift(chunk);
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
  mark();
  highlight();
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
async function reload(values, stay = false) {
  generation += 1;
  const before = generation;
  measure();
  const chunk = await load(values);
  if (before !== generation) return false;
  const y = scrollY;
  for (const old of loaded) old.remove();
  loaded = [chunk];
  above.after(chunk);
  measure();
  space();
  if (stay) window.scrollTo({ top: y, behavior: "instant" });
  mark();
  highlight();
  return true;
}

addEventListener("scroll", () => requestAnimationFrame(() => { fill(); showWhere(); }), { passive: true });
addEventListener("resize", () => { heights = new Map(); measure(); space(); fill(); });

// Where one is: a step without actions, or an action.

let here = null;

const stopOf = (element) => element.closest(".action[data-action]") ?? element.closest(".step");
const stops = () => [...chunks.querySelectorAll(".stop")].map(stopOf);
const actionOf = (stop) => (stop?.dataset.action === undefined ? null : Number(stop.dataset.action));
const stepOf = (stop) => Number(stop.closest(".step").dataset.step);

function mark() {
  if (!here) return;
  const found = document.getElementById(here);
  if (found && !found.classList.contains("is-here")) {
    for (const old of chunks.querySelectorAll(".is-here")) old.classList.remove("is-here");
    found.classList.add("is-here");
  }
}

function go(stop, { quietly = false, focus = true } = {}) {
  here = stop.id;
  mark();
  if (!quietly) {
    // What was thought and said before the first action of a step belongs to it, as long as both can be seen.
    const step = stop.closest(".step");
    const before = stop.getBoundingClientRect().top - step.getBoundingClientRect().top;
    const isFirst = step.querySelector("[data-action]") === stop;
    (isFirst && before < innerHeight / 2 ? step : stop).scrollIntoView({ block: "start", behavior: "instant" });
    if (focus) stop.querySelector(".stop")?.focus({ preventScroll: true });
  }
  history.replaceState(null, "", `#${stop.id}`);
  showWhere();
  return fill();
}

async function goToAction(action) {
  if (!document.getElementById(`action-${action}`)) await reload({ action });
  const found = document.getElementById(`action-${action}`);
  if (found) await go(found);
  else say(`There is no action ${action}`);
}

async function goToStep(step, how) {
  if (!document.getElementById(`step-${step}`)) await reload({ from: Math.floor(step / size) * size });
  const found = document.getElementById(`step-${step}`);
  const stop = found?.querySelector(".stop");
  if (stop) await go(stopOf(stop), how);
}

/** The stop one is at: the chosen one while it is near, else the first in the window. */
function current() {
  const chosen = here && document.getElementById(here);
  if (chosen) {
    const box = chosen.getBoundingClientRect();
    if (box.bottom > 0 && box.top < innerHeight) return chosen;
  }
  return stops().find((stop) => stop.getBoundingClientRect().bottom > 220) ?? null;
}

async function move(by) {
  const chosen = here && document.getElementById(here);
  const now = current();
  if (!now) return;
  let all = stops();
  let place = all.indexOf(now);
  if (!chosen && by > 0 && now.getBoundingClientRect().top > 100) place -= 1;
  if (!all[place + by]) {
    await fill();
    all = stops();
    place = all.indexOf(now);
  }
  if (all[place + by]) await go(all[place + by]);
  else say(by > 0 ? "The last step" : "The first step");
}

const where = document.getElementById("where");

function showWhere() {
  const now = current();
  if (!now) return;
  const action = actionOf(now) ?? actionOf(now.querySelector("[data-action]"));
  where.textContent = `step ${stepOf(now).toLocaleString("en")} of ${total.toLocaleString("en")}`;
  const hereMark = document.getElementById("here");
  if (!hereMark || action === null) return;
  const plot = hereMark.ownerSVGElement;
  const width = plot.viewBox.baseVal.width;
  const actions = Number(plot.dataset.actions);
  hereMark.setAttribute("x", String(Math.min((action / actions) * width, width - 1)));
  hereMark.setAttribute("visibility", "visible");
}

key("j", "Next action", () => void move(1));
key("k", "Previous action", () => void move(-1));
key("g", "First step", () => void goToStep(0));
key("G", "Last step", () => void goToStep(total - 1));

document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-go]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  goToAction(Number(link.dataset.go)).catch((error) => say(error.message));
});

chunks.addEventListener("click", (event) => {
  const head = event.target.closest(".stop");
  if (head && !event.target.closest("a, button, summary")) go(stopOf(head), { quietly: true });
});

// Suspicion.

const threshold = document.getElementById("threshold");
const kept = `ct suspicious from, of ${page.dataset.scale}`;
if (threshold) {
  const remembered = localStorage.getItem(kept);
  if (remembered !== null && Number.isFinite(Number(remembered))) threshold.value = remembered;
  threshold.addEventListener("change", () => localStorage.setItem(kept, threshold.value));
}

async function suspicious(by) {
  if (!threshold) {
    say("No action was judged by a monitor");
    return;
  }
  const now = current();
  let action = actionOf(now);
  if (action === null && now) {
    // Between actions: the nearest one that was passed.
    const all = stops();
    const passed = all.slice(0, all.indexOf(now) + (by > 0 ? 1 : 0)).map(actionOf).filter((one) => one !== null);
    action = passed.length ? passed[passed.length - 1] : null;
  }
  const values = { least: threshold.value };
  if (action !== null) values[by > 0 ? "after" : "before"] = action;
  if (by < 0) values.back = "true";
  const found = action === null && by < 0 ? { action: null } : await data("suspicious", values);
  if (found.action === null) say(`No ${by > 0 ? "further" : "earlier"} action from ${threshold.value} on`);
  else await goToAction(found.action);
}

const try_ = (work) => () => void work().catch((error) => say(error.message));
key("n", "Next suspicious action", try_(() => suspicious(1)));
key("p", "Previous suspicious action", try_(() => suspicious(-1)));
key("N", "", try_(() => suspicious(-1)));
for (const button of document.querySelectorAll("[data-suspicious]")) {
  button.hidden = false;
  button.addEventListener("click", try_(() => suspicious(Number(button.dataset.suspicious))));
}

// Trajectories beside this one.

const follow = (rel, sentence) => () => {
  const link = document.querySelector(`.neighbours a[rel=${rel}]`);
  if (link) link.click();
  else say(sentence);
};
key("]", "Next trajectory of the list", follow("next", "The last trajectory of the list"));
key("[", "Previous trajectory of the list", follow("prev", "The first trajectory of the list"));

// Find.

const find = document.getElementById("find");
const findText = document.getElementById("find-text");
const findCount = document.getElementById("find-count");
let search = { text: "", hits: [], place: -1, running: null };
find.hidden = false;

async function searchFor(text) {
  const mine = { text, hits: [], place: -1, running: null };
  search = mine;
  findCount.textContent = "…";
  let next = 0;
  let went = false;
  while (next !== null && search === mine && mine.hits.length < HITS_MAX) {
    const found = await data("find", { q: text, from: next });
    if (search !== mine) return;
    mine.hits.push(...found.hits);
    next = found.next;
    count(next !== null);
    if (!went && mine.hits.length) {
      went = true;
      await hit(1);
    }
  }
  if (search === mine) count(false);
}

function count(more) {
  const n = search.hits.length;
  findCount.textContent = !search.text ? "" : n === 0 && !more ? "nothing" : `${search.place + 1} of ${n}${more ? "…" : ""}`;
}

async function hit(by) {
  const n = search.hits.length;
  if (!n) return;
  search.place = (search.place + by + n) % n;
  count(false);
  // Whoever searches goes on with Enter.
  await goToStep(search.hits[search.place].step, { focus: false });
  const step = document.getElementById(`step-${search.hits[search.place].step}`);
  const text = search.text.toLowerCase();
  for (const folded of step?.querySelectorAll("details:not([open])") ?? []) {
    if (folded.textContent.toLowerCase().includes(text)) folded.open = true;
  }
  if (step && !step.textContent.toLowerCase().includes(text)) say("Found in a part of this step that is cut or folded away");
  highlight();
  const range = globalThis.CSS?.highlights?.get("found")?.values().next().value;
  const box = range?.getBoundingClientRect();
  if (box && (box.top < 200 || box.bottom > innerHeight)) window.scrollBy({ top: box.top - innerHeight / 3, behavior: "instant" });
}

/** Marks what was found where it can be seen. */
function highlight() {
  if (!globalThis.CSS?.highlights) return;
  CSS.highlights.delete("found");
  const text = search.text.toLowerCase();
  if (!text || !search.hits.length) return;
  const ranges = [];
  const first = search.hits[search.place]?.step;
  for (const step of chunks.querySelectorAll(".step")) {
    const walker = document.createTreeWalker(step, NodeFilter.SHOW_TEXT);
    while (walker.nextNode() && ranges.length < 500) {
      const lower = walker.currentNode.data.toLowerCase();
      for (let place = lower.indexOf(text); place >= 0 && ranges.length < 500; place = lower.indexOf(text, place + text.length)) {
        const range = document.createRange();
        range.setStart(walker.currentNode, place);
        range.setEnd(walker.currentNode, Math.min(place + text.length, walker.currentNode.length));
        if (Number(step.dataset.step) === first) ranges.unshift(range);
        else ranges.push(range);
      }
    }
  }
  if (ranges.length) CSS.highlights.set("found", new Highlight(...ranges));
}

find.addEventListener("submit", (event) => event.preventDefault());
findText.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    search = { text: "", hits: [], place: -1, running: null };
    findText.value = "";
    findCount.textContent = "";
    highlight();
  }
  if (event.key !== "Enter") return;
  event.preventDefault();
  const text = findText.value;
  const work = text && text !== search.text ? searchFor(text) : hit(event.shiftKey ? -1 : 1);
  work.catch((error) => { findCount.textContent = ""; say(error.message); });
});
for (const button of find.querySelectorAll("[data-find]")) {
  button.addEventListener("click", () => {
    const text = findText.value;
    const work = text && text !== search.text ? searchFor(text) : hit(Number(button.dataset.find));
    work.catch((error) => say(error.message));
  });
}
key("f", "Find in the transcript", () => {
  findText.focus();
  findText.select();
});

// Fold.

function foldAll() {
  const stop = current();
  const anchor = stop ? { element: stop, top: Math.max(stop.getBoundingClientRect().top, 170) } : held();
  const folded = chunks.classList.toggle("is-folded");
  for (const step of chunks.querySelectorAll(".step.is-folded")) step.classList.remove("is-folded");
  heights = new Map();
  measure();
  space();
  hold(anchor);
  const button = page.querySelector("[data-fold]");
  button.textContent = folded ? "Unfold all" : "Fold all";
  fill();
}

const foldButton = page.querySelector("[data-fold]");
foldButton.hidden = false;
foldButton.addEventListener("click", foldAll);
key("e", "Fold or unfold the step", () => {
  const now = current();
  if (!now) return;
  now.closest(".step").classList.toggle("is-folded");
  measure();
  space();
  fill();
});
key("E", "Fold or unfold everything", foldAll);

// More of something, in its place.

async function more(link) {
  const holder = link.closest(".cut, .more");
  const found = await fragment(link.getAttribute("href"));
  holder.replaceWith(found);
  measure();
  space();
  highlight();
}

async function raw(link) {
  const holder = link.closest(".event, .action, .step, .score, .media, .rest li, .model-calls li");
  const shown = holder.querySelector(":scope > .raw");
  if (shown) {
    shown.remove();
  } else {
    const found = await fragment(link.getAttribute("href"));
    for (const old of holder.querySelectorAll(":scope > .raw")) old.remove();
    holder.append(found);
    if (holder instanceof HTMLDetailsElement) holder.open = true;
  }
  measure();
  space();
}

async function input(link) {
  const holder = link.closest("li");
  const shown = holder.querySelector(":scope > .seen");
  if (shown) {
    shown.remove();
  } else {
    const seen = document.createElement("div");
    seen.className = "seen";
    seen.append(await fragment(link.getAttribute("href")));
    holder.append(seen);
  }
  measure();
  space();
}

page.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  for (const [name, work] of [["rest", more], ["more", more], ["raw", raw], ["input", input]]) {
    const link = event.target.closest(`a[data-${name}]`);
    if (!link) continue;
    event.preventDefault();
    work(link).catch((error) => say(error.message));
    return;
  }
});

key("r", "Raw JSON", () => {
  const now = current();
  const link = now?.querySelector("a[data-raw]");
  if (link) raw(link).catch((error) => say(error.message));
});

// Comments.

const commentForm = document.getElementById("comment-form");

function writeComment(stop) {
  if (!commentForm) {
    say("Sign in to comment");
    return;
  }
  const action = actionOf(stop);
  const before = page.querySelector(".comment-form.is-inline");
  before?.remove();
  if (before?.dataset.for === stop.id) return;
  if (action === null) {
    commentForm.querySelector("textarea").focus();
    return;
  }
  const form = commentForm.cloneNode(true);
  form.removeAttribute("id");
  form.classList.add("is-inline");
  form.dataset.for = stop.id;
  const text = form.querySelector("textarea");
  text.id = "comment-inline";
  text.placeholder = `Comment on action ${action}`;
  form.querySelector("label.visually-hidden").htmlFor = text.id;
  form.querySelector("label.visually-hidden").textContent = text.placeholder;
  form.querySelector("[name=action]").value = String(action);
  form.querySelector(".comment-action").hidden = true;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, action).catch((error) => say(error.message));
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Escape") form.remove();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  stop.append(form);
  text.focus();
}

async function send(form, action) {
  const body = new URLSearchParams(new FormData(form));
  const answer = await fetch(form.getAttribute("action"), { method: "POST", body, redirect: "manual" });
  if (answer.type !== "opaqueredirect" && !answer.ok) throw new Error("The comment was not taken; reload the page and try again");
  form.remove();
  const chunk = document.getElementById(`action-${action}`)?.closest(".chunk");
  if (chunk) {
    const fresh = await load({ from: from(chunk) });
    const anchor = held();
    const top = anchor?.element.id;
    chunk.replaceWith(fresh);
    loaded[loaded.indexOf(chunk)] = fresh;
    const again = top && document.getElementById(top);
    settle(again ? { element: again, top: anchor.top } : null);
  }
  say("Comment kept");
  document.getElementById(`action-${action}`)?.querySelector(".stop")?.focus({ preventScroll: true });
}

key("c", "Comment on the action", () => {
  const now = current();
  if (now) writeComment(now);
});
page.addEventListener("click", (event) => {
  const button = event.target.closest("[data-comment]");
  if (button) writeComment(stopOf(button));
});

// While the sample is being read, times, tokens and events are missing. They come when it is complete.

async function watch() {
  const reading = document.getElementById("reading");
  const shown = reading.querySelector("[data-read]");
  while (!complete) {
    await new Promise((resolve) => setTimeout(resolve, 300));
    const state = await data("state", {});
    complete = state.complete;
    shown.textContent = `${(state.read_bytes / 1e6).toFixed(0)} MB`;
    if (state.done) break;
  }
  if (!complete || !loaded.length) {
    location.reload();
    return;
  }
  // What stands beside the steps comes anew as well.
  const fresh = await fragment(`${path}${query}`);
  for (const name of [".side", "#strip", ".prompt", ".facts"]) {
    const old = page.querySelector(name);
    const now = fresh.querySelector(name);
    if (old && now) old.replaceWith(now);
    else if (now && name === ".prompt") chunks.before(now);
    else if (now && name === "#strip") document.getElementById("toolbar").before(now);
  }
  reading.hidden = true;
  const stop = here && document.getElementById(here);
  const action = actionOf(stop);
  const y = scrollY;
  heights = new Map();
  await reload(action === null ? { from: from(loaded[0]) } : { action });
  if (here && document.getElementById(here)) await go(document.getElementById(here));
  else window.scrollTo({ top: y, behavior: "instant" });
  await fill();
}

async function begin() {
  // Beside the steps there is no room: what is known about them waits behind its titles.
  if (matchMedia("(max-width: 70rem)").matches) {
    for (const panel of page.querySelectorAll(".side-panel")) panel.open = false;
  }
  history.scrollRestoration = "manual";
  measure();
  space();
  const action = /^#action-(\d+)$/.exec(location.hash);
  const step = /^#step-(\d+)$/.exec(location.hash);
  if (action) await goToAction(Number(action[1]));
  else if (step) await goToStep(Number(step[1]));
  await fill();
  showWhere();
  page.dataset.ready = "true";
  if (!complete && !document.getElementById("reading").hidden) await watch();
}

addEventListener("hashchange", () => {
  const action = /^#action-(\d+)$/.exec(location.hash);
  if (action) goToAction(Number(action[1])).catch((error) => say(error.message));
});

begin().catch((error) => say(error.message));
