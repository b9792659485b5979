// Tables to go through by key and to choose rows from.

import { key } from "./base.js";

const rows = () => [...document.querySelectorAll("table[data-rows] tr[data-row]")];
let current = null;

function go(row) {
  current?.classList.remove("is-current");
  current = row;
  if (!row) return;
  row.classList.add("is-current");
  row.querySelector("[data-open]")?.focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

function step(by) {
  const all = rows();
  if (all.length === 0) return;
  const at = all.indexOf(current);
  const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by;
  go(all[Math.min(Math.max(next, 0), all.length - 1)]);
}

if (rows().length > 0) {
  key("j", "Next row", () => step(1), "Rows");
  key("k", "Row before", () => step(-1), "Rows");
  key("Enter", "Open the row", (event) => {
    if (event.target.closest("a, button, summary") || !current) return false;
    current.querySelector("[data-open]")?.click();
  });
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest?.("tr[data-row]");
    if (row && row !== current) {
      current?.classList.remove("is-current");
      current = row;
      row.classList.add("is-current");
    }
  });
}

const next = document.querySelector('.pager a[rel="next"]');
if (next) key("n", "Next page", () => next.click(), "Rows");
const first = document.querySelector(".pager a[data-first]");
if (first) key("p", "First page", () => first.click(), "Rows");

// Choosing.

const actions = document.querySelector("[data-actions]");
const boxes = [...document.querySelectorAll("[data-choose]")];
const all = document.querySelector("[data-choose-all]");

function chosen() {
  return boxes.filter((box) => box.checked);
}

function show() {
  const count = chosen().length;
  const label = actions.querySelector("[data-chosen-count]");
  const one = label.dataset.one ?? "run";
  const many = label.dataset.many ?? "runs";
  label.textContent = `${count} ${count === 1 ? one : many} chosen`;
  actions.hidden = count === 0;
  actions.classList.toggle("has-chosen", count > 0);
  for (const box of boxes) box.closest("tr").classList.toggle("is-chosen", box.checked);
  if (all) {
    all.checked = count === boxes.length;
    all.indeterminate = count > 0 && count < boxes.length;
  }
}

if (actions && boxes.length > 0) {
  let last = null;
  for (const box of boxes) {
    box.addEventListener("click", (event) => {
      if (event.shiftKey && last) {
        const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((a, b) => a - b);
        for (const between of boxes.slice(from, to + 1)) between.checked = box.checked;
      }
      last = box;
      show();
    });
  }
  if (all) {
    all.hidden = false;
    all.addEventListener("change", () => {
      for (const box of boxes) box.checked = all.checked;
      show();
    });
  }
  key("x", "Choose the row, or not", () => {
    const box = current?.querySelector("[data-choose]");
    if (!box) return false;
    box.checked = !box.checked;
    show();
  }, "Rows");
  key("Escape", "Choose none", () => {
    if (chosen().length === 0) return false;
    for (const box of boxes) box.checked = false;
    show();
  }, "Rows");
  actions.addEventListener("submit", (event) => {
    if (event.submitter?.value === "delete" && !confirm(`Delete ${chosen().length} of the runs? They can be restored.`)) {
      event.preventDefault();
    }
  });
  // Also when the browser kept ticks from before.
  show();
  addEventListener("pageshow", show);
}
