// Where in a transcript one is, and how one gets elsewhere: a stop is an action, or a step without actions.

import { key } from "./base.js";
import { attempt, chunks, fill, reload, say, shown, size, whenever } from "./pieces.js";

/** The id of the stop that was chosen. */
let here = null;

export const stopOf = (element) => element.closest(".action[data-action]") ?? element.closest(".step");
export const stops = () => [...chunks.querySelectorAll(".stop")].map(stopOf);
export const actionOf = (stop) => (stop?.dataset.action === undefined ? null : Number(stop.dataset.action));
export const stepOf = (stop) => Number(stop.closest(".step").dataset.step);

function mark() {
  if (!here) return;
  const found = document.getElementById(here);
  if (found && !found.classList.contains("is-here")) {
    for (const old of chunks.querySelectorAll(".is-here")) old.classList.remove("is-here");
    found.classList.add("is-here");
  }
}

export function go(stop, { quietly = false, focus = true } = {}) {
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

export async function goToAction(action) {
  if (!document.getElementById(`action-${action}`)) await reload({ action });
  const found = document.getElementById(`action-${action}`);
  if (found) await go(found);
  else say(`There is no action ${action}`);
}

export async function goToStep(step, how) {
  if (!document.getElementById(`step-${step}`)) await reload({ from: Math.floor(step / size) * size });
  const found = document.getElementById(`step-${step}`);
  const stop = found?.querySelector(".stop");
  if (stop) await go(stopOf(stop), how);
}

/** The stop one is at: the chosen one while it is near, else the first in the window. */
export function current() {
  const before = chosen();
  if (before) {
    const box = before.getBoundingClientRect();
    if (box.bottom > 0 && box.top < innerHeight) return before;
  }
  return stops().find((stop) => stop.getBoundingClientRect().bottom > 220) ?? null;
}

async function move(by) {
  const before = chosen();
  const now = current();
  if (!now) return;
  let all = stops();
  let place = all.indexOf(now);
  if (!before && by > 0 && now.getBoundingClientRect().top > 100) place -= 1;
  if (!all[place + by]) {
    await fill();
    all = stops();
    place = all.indexOf(now);
  }
  if (all[place + by]) await go(all[place + by]);
  else say(by > 0 ? "The last step" : "The first step");
}

const where = document.getElementById("where");

export function showWhere() {
  const now = current();
  if (!now) return;
  const action = actionOf(now) ?? actionOf(now.querySelector("[data-action]"));
  where.textContent = `step ${stepOf(now).toLocaleString("en")} of ${shown.total.toLocaleString("en")}`;
  const hereMark = document.getElementById("here");
  if (!hereMark || action === null) return;
  const plot = hereMark.ownerSVGElement;
  const { actions, bars } = plot.dataset;
  hereMark.setAttribute("x", String(Math.min((action / actions) * bars, bars - 1)));
  hereMark.setAttribute("visibility", "visible");
}

key("j", "Next action", () => attempt(() => move(1)), "Go to");
key("k", "Previous action", () => attempt(() => move(-1)), "Go to");
key("g", "First step", () => attempt(() => goToStep(0)), "Go to");
key("G", "Last step", () => attempt(() => goToStep(shown.total - 1)), "Go to");

document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-go], [data-go-step]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const { go: action, goStep: step } = link.dataset;
  attempt(() => (action === undefined ? goToStep(Number(step)) : goToAction(Number(action))));
});

chunks.addEventListener("click", (event) => {
  const head = event.target.closest(".stop");
  if (head && !event.target.closest("a, button, summary")) go(stopOf(head), { quietly: true });
});

/** The stop that was chosen, if it is on the page. */
export const chosen = () => here && document.getElementById(here);

/** Goes where an address leads to, if it leads to a part of the page. */
export async function follow(hash) {
  const place = /^#(action|step)-(\d+)$/.exec(hash);
  if (place) await (place[1] === "action" ? goToAction : goToStep)(Number(place[2]));
}

addEventListener("hashchange", () => attempt(() => follow(location.hash)));
addEventListener("scroll", () => requestAnimationFrame(showWhere), { passive: true });
whenever(mark);
