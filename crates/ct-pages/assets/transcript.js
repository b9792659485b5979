// The page of a trajectory: suspicion, folding, more of something, and the end of a sample that is still being read.

import { fragment, key } from "./base.js";
import {
  attempt, chunks, data, fill, from, held, hold, page, reload, remeasure, say, shown, size,
} from "./pieces.js";
import {
  actionOf, chosen, current, follow, go, goToAction, showWhere, stops,
} from "./where.js";
import "./find.js";
import "./talk.js";

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
  const found = action === null && by < 0 ? { action: null } : await data("suspicious", values);
  if (found.action === null) say(`No ${by > 0 ? "further" : "earlier"} action from ${threshold.value} on`);
  else await goToAction(found.action);
}

key("n", "Next suspicious action", () => attempt(() => suspicious(1)), "Go to");
key("p", "Previous suspicious action", () => attempt(() => suspicious(-1)), "Go to");
key("N", "", () => attempt(() => suspicious(-1)));
for (const button of document.querySelectorAll("[data-suspicious]")) {
  button.hidden = false;
  button.addEventListener("click", () => attempt(() => suspicious(Number(button.dataset.suspicious))));
}

// Paper. The page has some steps only; another has them all.

addEventListener("beforeprint", () => {
  document.getElementById("unprinted").hidden = shown.loaded.length * size >= shown.total;
});
key("P", "Print all of it", () => page.querySelector("[data-print]").click(), "Look at");

// Trajectories beside this one.

const neighbour = (rel, sentence) => () => {
  const link = document.querySelector(`.neighbours a[rel=${rel}]`);
  if (link) link.click();
  else say(sentence);
};
key("]", "Next trajectory of the list", neighbour("next", "The last trajectory of the list"), "Go to");
key("[", "Previous trajectory of the list", neighbour("prev", "The first trajectory of the list"), "Go to");
key("u", "Back to the list", neighbour("up", ""), "Go to");

// Fold.

function foldAll() {
  const stop = current();
  const anchor = stop ? { element: stop, top: Math.max(stop.getBoundingClientRect().top, 170) } : held();
  const folded = chunks.classList.toggle("is-folded");
  for (const step of chunks.querySelectorAll(".step.is-folded")) step.classList.remove("is-folded");
  remeasure(true);
  hold(anchor);
  foldButton.textContent = folded ? "Unfold all" : "Fold all";
  fill();
}

const foldButton = page.querySelector("[data-fold]");
foldButton.hidden = false;
foldButton.addEventListener("click", foldAll);
key("e", "Fold or unfold the step", () => {
  const now = current();
  if (!now) return;
  now.closest(".step").classList.toggle("is-folded");
  remeasure();
  fill();
}, "Look at");
key("E", "Fold or unfold everything", foldAll, "Look at");

// More of something, in its place.

async function more(link) {
  const holder = link.closest(".cut, .more");
  const found = await fragment(link.getAttribute("href"));
  holder.replaceWith(found);
  remeasure();
}

/** What raw JSON belongs to: it stands below the head of a step or of a call, else at the end. */
const rawHolder = (link) => link.closest(".step-head, .action-head, .output, .event, .score, .media, .rest li, .model-calls li");

/** The raw JSON that a link has opened. */
function openRaw(link) {
  const holder = rawHolder(link);
  const among = holder.matches("header") ? holder.parentElement : holder;
  return [...among.querySelectorAll(":scope > .raw")].find((one) => one.dataset.of === link.getAttribute("href"));
}

async function showRaw(link, of) {
  const box = (await fragment(link.getAttribute("href"))).querySelector(".raw");
  box.dataset.of = of;
  return box;
}

async function raw(link) {
  // One shown already leads to others of the same.
  const old = link.closest(".raw");
  if (old) {
    old.replaceWith(await showRaw(link, old.dataset.of));
    return;
  }
  const open = openRaw(link);
  if (open) {
    open.remove();
  } else {
    const box = await showRaw(link, link.getAttribute("href"));
    const holder = rawHolder(link);
    if (holder.matches("header")) holder.after(box);
    else holder.append(box);
    if (holder instanceof HTMLDetailsElement) holder.open = true;
  }
  remeasure();
}

/** The messages of a stop: the agent's, and what the tool answered. */
async function rawMessages(stop) {
  const links = [
    stop.closest(".step").querySelector(":scope > .step-head a[data-raw]"),
    stop.querySelector(":scope > .output > a[data-raw]"),
  ].filter((link) => link !== null);
  const open = links.filter(openRaw);
  const top = stop.getBoundingClientRect().top;
  for (const link of open.length ? open : links) await raw(link);
  hold({ element: stop, top });
}

/** Goes to the next event of the step, or the one before. */
function goToEvent(by) {
  const events = current()?.closest(".step").querySelector(":scope > .events");
  if (!events) {
    say("No events in this step");
    return;
  }
  events.open = true;
  const all = [...events.querySelectorAll(".event > summary")];
  const at = all.indexOf(document.activeElement);
  const next = all[at < 0 ? 0 : at + by];
  if (next) next.focus();
  else say(by > 0 ? "The last event of the step" : "The first event of the step");
}

async function input(link) {
  const holder = link.closest("li");
  const open = holder.querySelector(":scope > .seen");
  if (open) {
    open.remove();
  } else {
    const seen = document.createElement("div");
    seen.className = "seen";
    seen.append(await fragment(link.getAttribute("href")));
    holder.append(seen);
  }
  remeasure();
}

page.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  for (const [name, work] of [["rest", more], ["more", more], ["raw", raw], ["input", input]]) {
    const link = event.target.closest(`a[data-${name}]`);
    if (!link) continue;
    event.preventDefault();
    attempt(() => work(link));
    return;
  }
});

key("r", "Raw JSON of the call, the step or the event", () => {
  const focused = document.activeElement?.closest(".event, .score, .rest li, .model-calls li") ?? current();
  const link = focused?.querySelector("a[data-raw]");
  if (link) attempt(() => raw(link));
}, "Look at");
key("R", "Raw JSON of the messages", () => {
  const now = current();
  if (now) attempt(() => rawMessages(now));
}, "Look at");
key("v", "Next event of the step", () => goToEvent(1), "Go to");
key("V", "Event before", () => goToEvent(-1), "Go to");

// While the sample is being read, times, tokens and events are missing. They come when it is complete.

let complete = page.dataset.complete === "true";

async function watch() {
  const reading = document.getElementById("reading");
  const read = reading.querySelector("[data-read]");
  while (!complete) {
    await new Promise((resolve) => setTimeout(resolve, 300));
    const state = await data("state", {});
    complete = state.complete;
    read.textContent = `${(state.read_bytes / 1e6).toFixed(0)} MB`;
    if (state.done) break;
  }
  if (!complete || !shown.loaded.length) {
    location.reload();
    return;
  }
  // What stands beside the steps comes anew as well, but for comments: someone may be writing.
  const fresh = await fragment(page.dataset.path + page.dataset.query);
  const comments = document.getElementById("comments");
  if (comments) fresh.getElementById("comments").replaceWith(comments.cloneNode(false));
  for (const name of [".side", "#strip", ".prompt", ".facts"]) {
    const old = page.querySelector(name);
    const now = fresh.querySelector(name);
    if (old && now) old.replaceWith(now);
    else if (now && name === ".prompt") chunks.before(now);
    else if (now && name === "#strip") document.getElementById("toolbar").before(now);
  }
  if (comments) document.getElementById("comments").replaceWith(comments);
  reading.hidden = true;
  const action = actionOf(chosen());
  const y = scrollY;
  remeasure(true);
  await reload(action === null ? { from: from(shown.loaded[0]) } : { action });
  if (chosen()) await go(chosen());
  else window.scrollTo({ top: y, behavior: "instant" });
  await fill();
}

async function begin() {
  // Beside the steps there is no room: what is known about them waits behind its titles.
  if (matchMedia("(max-width: 70rem)").matches) {
    for (const panel of page.querySelectorAll(".side-panel")) panel.open = false;
  }
  history.scrollRestoration = "manual";
  remeasure();
  await follow(location.hash);
  await fill();
  showWhere();
  page.dataset.ready = "true";
  if (!complete && !document.getElementById("reading").hidden) await watch();
}

attempt(begin);
