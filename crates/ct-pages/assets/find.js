// Finds a text in a transcript, which the server looks through, and marks it where it can be seen.

import { key } from "./base.js";
import { attempt, chunks, data, say, whenever } from "./pieces.js";
import { goToStep } from "./where.js";

/** Steps found that are kept. */
const HITS_MAX = 20_000;

const find = document.getElementById("find");
const findText = document.getElementById("find-text");
const findCount = document.getElementById("find-count");
const NOTHING = { text: "", hits: [], place: -1 };
let search = NOTHING;
find.hidden = false;

async function searchFor(text) {
  const mine = { ...NOTHING, text, hits: [] };
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

function seek(by) {
  const text = findText.value;
  attempt(async () => {
    try {
      await (text && text !== search.text ? searchFor(text) : hit(by));
    } catch (error) {
      findCount.textContent = "";
      throw error;
    }
  });
}

find.addEventListener("submit", (event) => event.preventDefault());
findText.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    search = NOTHING;
    findText.value = "";
    findCount.textContent = "";
    highlight();
  }
  if (event.key !== "Enter") return;
  event.preventDefault();
  seek(event.shiftKey ? -1 : 1);
});
for (const button of find.querySelectorAll("[data-find]")) {
  button.addEventListener("click", () => seek(Number(button.dataset.find)));
}
key("f", "Find in the transcript", () => {
  findText.focus();
  findText.select();
}, "Look at");

whenever(highlight);
