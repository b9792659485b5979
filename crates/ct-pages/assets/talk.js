// Comments are written, changed and deleted in their place.

import { fragment, key } from "./base.js";
import { address, attempt, page, refresh, say } from "./pieces.js";
import { actionOf, current, stepOf, stopOf } from "./where.js";

const writeForm = document.getElementById("write-comment");

/** Gives a form the keys of one who writes. */
function byKey(form, close) {
  form.querySelector("textarea").addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      close();
    }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit(form.querySelector("button"));
  });
}

/** Opens a form for a comment on an action, or on a step without one; closes it when it is there. */
function writeComment(stop) {
  if (!writeForm) {
    say("Sign in to comment");
    return;
  }
  const before = page.querySelector(".comment-form.is-inline");
  before?.remove();
  if (before?.dataset.for === stop.id) return;
  const action = actionOf(stop);
  const what = action === null ? "step" : "action";
  const number = action ?? stepOf(stop);
  const form = writeForm.cloneNode(true);
  form.removeAttribute("id");
  form.classList.add("is-inline");
  form.dataset.for = stop.id;
  for (const field of form.querySelectorAll(".comment-about input")) field.value = field.name === what ? number : "";
  const text = form.querySelector("textarea");
  const label = form.querySelector("label");
  text.id = label.htmlFor = "write-inline";
  text.value = "";
  text.placeholder = label.textContent = `Comment on ${what} ${number}`;
  const close = () => {
    form.remove();
    stop.querySelector(".stop")?.focus({ preventScroll: true });
  };
  byKey(form, close);
  stop.append(form);
  text.focus();
}

/** While it has the focus, keys are about the comments on the whole. */
const panelTitle = () => document.querySelector("#comments summary");

function writeOnAll() {
  if (!writeForm) {
    say("Sign in to comment");
    return;
  }
  const panel = document.querySelector("#comments > details");
  panel.open = true;
  const text = document.getElementById("write-text");
  text.scrollIntoView({ block: "nearest" });
  text.focus();
}

/** Opens the comment of one's own that stands here, and the next one when that is open. */
function editComment() {
  const now = current();
  const inside = document.activeElement?.closest("#comments") ?? now;
  const own = [...(inside?.querySelectorAll(".comment-edit[data-own]") ?? [])];
  const open = own.findIndex((one) => one.open);
  if (!own.length) {
    say("No comment of yours here");
    return;
  }
  for (const one of own) one.open = false;
  const next = own[(open + 1) % own.length];
  next.open = true;
  next.querySelector("textarea").focus();
}

/** Takes back the deletion of one's own comment that stands here, of several the last one. */
function restoreComment() {
  const inside = document.activeElement?.closest("#comments") ?? current();
  const own = inside?.querySelectorAll(".comment-restore[data-own]") ?? [];
  if (!own.length) {
    say("No deleted comment of yours here");
    return;
  }
  const form = own[own.length - 1];
  form.requestSubmit(form.querySelector("button"));
}

/** Sends a form in place, and shows what became of it. */
async function send(form, button) {
  const body = new URLSearchParams(new FormData(form, button));
  const answer = await fetch(form.getAttribute("action"), {
    method: "POST", body, redirect: "manual", headers: { accept: "application/json" },
  });
  if (answer.type !== "opaqueredirect") throw new Error((await answer.json()).error);
  const stop = form.closest(".action[data-action], .step");
  if (stop) {
    await refresh(stop, stop.id);
    document.getElementById(stop.id).querySelector(".stop")?.focus({ preventScroll: true });
  }
  if (form === writeForm) form.querySelector("textarea").value = "";
  const fresh = await fragment(address("comments", {}));
  document.querySelector("#comments .comment-list").replaceWith(fresh.querySelector(".comment-list"));
  if (!stop) panelTitle().focus({ preventScroll: true });
  say({ edit: "Comment changed", delete: "Comment deleted; z brings it back", restore: "Comment restored" }[button?.value] ?? "Comment kept");
}

if (writeForm) {
  // The form beside the steps is for the whole; steps have forms of their own.
  writeForm.querySelector(".comment-about").hidden = true;
  byKey(writeForm, () => panelTitle().focus({ preventScroll: true }));
  page.addEventListener("submit", (event) => {
    if (!event.target.closest(".comment-form, .comment-edit, .comment-restore")) return;
    event.preventDefault();
    attempt(() => send(event.target, event.submitter));
  });
  page.addEventListener("toggle", (event) => {
    const edit = event.target;
    if (!edit.matches(".comment-edit") || edit.dataset.keys) return;
    edit.dataset.keys = "true";
    byKey(edit.querySelector("form"), () => {
      edit.open = false;
      (edit.closest(".action, .step")?.querySelector(".stop") ?? panelTitle()).focus({ preventScroll: true });
    });
  }, { capture: true });
}

key("c", "Comment on the action or step", () => {
  const now = current();
  if (now) writeComment(now);
}, "Comments");
key("C", "Change or delete your comment here", editComment, "Comments");
key("z", "Restore your deleted comment here", restoreComment, "Comments");
key("w", "Comment on the whole trajectory", writeOnAll, "Comments");
page.addEventListener("click", (event) => {
  const link = event.target.closest("[data-comment]");
  if (!link) return;
  event.preventDefault();
  writeComment(stopOf(link));
});
