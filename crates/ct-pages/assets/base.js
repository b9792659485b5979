// What every page does: the theme switch, the keys that are the same everywhere, and their list.

const root = document.documentElement;

/** Makes nodes of HTML that our own server made of escaped text. */
const policy = window.trustedTypes?.createPolicy("ct", { createHTML: (html) => html });

/** Fetches a piece of a page from our own server. Throws when the answer is not one. */
export async function fragment(path, options = {}) {
  const address = new URL(path, location.href);
  if (address.origin !== location.origin) throw new Error("a fragment comes from this server only");
  const answer = await fetch(address, { ...options, headers: { accept: "text/html", ...options.headers } });
  if (!answer.ok || answer.redirected) throw new Error(`the server answered ${answer.status}`);
  const html = await answer.text();
  const template = document.createElement("template");
  template.innerHTML = policy ? policy.createHTML(html) : html;
  return template.content;
}

function isDark() {
  if (root.dataset.theme) return root.dataset.theme === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

for (const button of document.querySelectorAll("[data-theme-switch]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `ct_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax${secure}`;
  });
}

// Keys. A page adds its own with `key`; nothing happens while someone writes.

const keys = new Map();

/** What a key does on this page. `name` is as in KeyboardEvent.key; what it does is shown under `?`, with its group. */
export function key(name, help, action, group = "Everywhere") {
  keys.set(name, { help, action, group });
}

function isWriting(target) {
  return target.isContentEditable || ["TEXTAREA", "SELECT"].includes(target.tagName)
    || (target.tagName === "INPUT" && target.type !== "checkbox" && target.type !== "radio");
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isWriting(event.target)) {
    event.target.blur();
    return;
  }
  if (isWriting(event.target) || document.querySelector("dialog[open]")) return;
  const found = keys.get(event.key);
  if (found && found.action(event) !== false) event.preventDefault();
});

const search = document.querySelector("[data-search]");
if (search) {
  key("/", "Search", () => {
    search.focus();
    search.select();
  });
}

/** A group of keys, still empty. */
function listOf(group) {
  const section = document.createElement("section");
  const title = document.createElement("h3");
  title.textContent = group;
  section.append(title, document.createElement("dl"));
  return section;
}

key("?", "Show these keys", () => {
  const dialog = document.createElement("dialog");
  dialog.className = "keys";
  const title = document.createElement("h2");
  title.textContent = "Keys";
  const groups = new Map();
  for (const [name, { help, group }] of keys) {
    if (!help) continue;
    if (!groups.has(group)) groups.set(group, listOf(group));
    const list = groups.get(group).lastChild;
    const term = document.createElement("dt");
    const shown = document.createElement("kbd");
    shown.textContent = { " ": "Space", ArrowDown: "↓", ArrowUp: "↑" }[name] ?? name;
    term.append(shown);
    const description = document.createElement("dd");
    description.textContent = help;
    list.append(term, description);
  }
  const form = document.createElement("form");
  form.method = "dialog";
  const close = document.createElement("button");
  close.textContent = "Close";
  form.append(close);
  const all = document.createElement("div");
  all.className = "key-groups";
  const everywhere = groups.get("Everywhere");
  groups.delete("Everywhere");
  all.append(...groups.values(), everywhere);
  dialog.append(title, all, form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
});

for (const button of document.querySelectorAll("[data-help]")) {
  button.hidden = false;
  button.addEventListener("click", () => keys.get("?").action());
}

// Forms that read leave their empty fields out of the address.
for (const form of document.querySelectorAll("form[data-filters]")) {
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) {
      if (value === "") event.formData.delete(name);
    }
  });
}

// Menus close when one goes elsewhere.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open], details.filter-panel[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open], details.filter-panel[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

const panel = document.querySelector("details.filter-panel");
if (panel) {
  key("f", "Filters", () => {
    panel.open = true;
    panel.querySelector("input, select")?.focus();
  });
}

for (const button of document.querySelectorAll("[data-print-now]")) {
  button.hidden = false;
  button.addEventListener("click", () => print());
  key("P", "Print", () => print());
}

for (const field of document.querySelectorAll("[data-select-all]")) {
  field.addEventListener("focus", () => field.select());
}
