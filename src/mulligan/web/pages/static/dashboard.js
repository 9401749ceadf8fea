// What the pages do beyond links and forms. Without this script they are complete, but they do not change by themselves.
"use strict";

const part = (id) => document.getElementById(id);
const content = () => part("content");
const isTyping = () => document.activeElement?.matches("input:not([type=checkbox], [type=radio]), textarea, select") ?? false;

// Times: "3 min ago" and "in 5 s" go on, by the clock of the server. Its time in the page is that of the first byte.

const firstByte = Date.now() - performance.now() + (performance.getEntriesByType("navigation")[0]?.responseStart ?? 0);
const ahead = Date.parse(document.body.dataset.now ?? "") - firstByte || 0;
const now = () => Date.now() + ahead;
const clockTime = () => new Date(now()).toISOString().slice(11, 19);

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function relative(seconds) {
  const size = Math.abs(seconds);
  if (size < 1) return "now";
  const [unit, name] = UNITS.find(([each]) => size >= each);
  const text = `${Math.floor(size / unit)} ${name}`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

function updateTimes() {
  for (const each of document.querySelectorAll("#content time")) {
    if (!/ago$|^in |^now$/.test(each.textContent)) continue;
    const text = relative((now() - Date.parse(each.dateTime)) / 1000);
    if (each.textContent !== text) each.textContent = text;
  }
  for (const each of document.querySelectorAll("#content time.countdown")) countDown(each);
}

function countDown(each) {
  const left = Math.round((Date.parse(each.dateTime) - now()) / 1000);
  const at = UNITS.findIndex(([size]) => left >= size);
  const [size, name] = UNITS[at] ?? [1, "s"];
  const [smaller, below] = UNITS[at + 1] ?? [];
  const rest = smaller ? Math.floor((left % size) / smaller) : 0;
  const text = left < 1 ? "a moment" : `${Math.floor(left / size)} ${name}${rest ? ` ${rest} ${below}` : ""}`;
  if (each.textContent === text) return;
  each.textContent = text;
  if (left < 1) refresh();
}
setInterval(updateTimes, 1000);

// Live: what a person opened, chose or typed stays as it is when the page reads itself again.

// A form that is sent again after the page has changed is still the same request. Other hidden fields are the server's.
const FILLED_IN = "main :is(input:not([type=hidden]), input[name=request], textarea)";
const isKept = (name, node) =>
  (name === "open" && node.tagName === "DETAILS") ||
  ((name === "checked" || name === "value") && node.matches(FILLED_IN)) ||
  (name === "selected" && node.matches("main option"));

addEventListener("DOMContentLoaded", () => {
  if (!window.Idiomorph) return;
  Idiomorph.defaults.ignoreActiveValue = true;
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !isKept(name, node);
});

// A form that is being filled in is not taken away, a list stands still while its rows are chosen, and no row runs away
// from the pointer or the keys. The page reads itself again afterwards. A pointer that rests holds nothing: the page is
// only looked at.

const RESTS_AFTER = 15000;
const HOLDS = {
  "details.asking[open]": "close the question",
  "form.choosing input[name=job]:checked": "",
  "[data-row]:is(:hover, :focus-within)": "leave the list",
};
let isHeldBack = false;
let touchedAt = -Infinity;

const refresh = () => window.htmx?.trigger(content(), "refresh");
const isResting = () => performance.now() - touchedAt > RESTS_AFTER;
const hold = () => Object.keys(HOLDS).find((each) => content().querySelector(each) && !(each.includes(":hover") && isResting()));
const isHeld = () => document.hidden || hold() !== undefined;

function showHeldBack() {
  const note = part("held-back");
  if (!note) return;
  const until = (isHeldBack && HOLDS[hold()]) || "";
  note.hidden = !until;
  const said = note.querySelector("span");
  if (until && said.textContent !== until) said.textContent = until;
}
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.target.id !== "content") return;
  isHeldBack = isHeld();
  if (isHeldBack) event.preventDefault();
  showHeldBack();
});
function catchUp() {
  if (!isHeldBack) return;
  if (isHeld()) showHeldBack();
  else refresh();
}
for (const name of ["toggle", "change", "reset", "visibilitychange", "pointerover", "pointerout", "focusin", "focusout"]) {
  document.addEventListener(name, () => setTimeout(catchUp), true);
}
setInterval(catchUp, 1000);
for (const name of ["pointermove", "keydown"]) document.addEventListener(name, () => { touchedAt = performance.now(); }, true);

document.addEventListener("htmx:afterSwap", () => {
  const at = part("live-at");
  if (at) at.textContent = clockTime();
  updateTimes();
  showSelection();
  setUnread(false);
});
document.addEventListener("htmx:responseError", (event) => {
  // The session is over: the page leads to the form.
  if (event.detail.xhr.status === 401) location.reload();
});

// What is out of date loses its colour, and says since when: the connection was lost, or the page could not be read again.

function showStale() {
  const isCutOff = part("cut-off")?.hidden === false;
  if (isCutOff && part("unread")) part("unread").hidden = true;
  document.documentElement.classList.toggle("is-stale", isCutOff || part("unread")?.hidden === false);
}

function setUnread(isUnread) {
  if (!part("unread")) return;
  if (isUnread) part("unread-at").textContent = part("live-at").textContent;
  part("unread").hidden = !isUnread;
  showStale();
}
for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(name, (event) => { if (event.target.id === "content") setUnread(true); });
}
document.addEventListener("click", (event) => { if (event.target.id === "read-again") refresh(); });

// The connection. A browser has six to a host over HTTP/1.1, and each stream is one: a tab that is hidden gives its back.

const LEAVES_AFTER = 1000;

class Source extends EventTarget {
  constructor(url) {
    super();
    this.url = url;
    if (!document.hidden) this.open();
  }

  open() {
    this.stream = new EventSource(this.url);
    this.stream.onopen = (event) => this.onopen?.(event);
    this.stream.onerror = (event) => this.onerror?.(event);
    this.stream.addEventListener("changed", () => this.dispatchEvent(new Event("changed")));
  }

  close() {
    this.stream?.close();
    this.stream = null;
  }

  get readyState() {
    return this.stream?.readyState ?? EventSource.CONNECTING;
  }
}

let source = null;
let leaving = 0;
if (window.htmx) htmx.createEventSource = (url) => (source = new Source(url));

document.addEventListener("visibilitychange", () => {
  clearTimeout(leaving);
  if (document.hidden) {
    leaving = setTimeout(() => source?.close(), LEAVES_AFTER);
  } else if (source && !source.stream) {
    source.open();
    refresh();
  }
});

function setConnected(isConnected) {
  const lost = part("cut-off");
  if (!lost) return;
  if (!isConnected && lost.hidden) part("cut-off-at").textContent = clockTime();
  if (isConnected && !lost.hidden) refresh();
  lost.hidden = isConnected;
  showStale();
}
document.addEventListener("htmx:sseError", (event) => {
  setConnected(false);
  // The server refused the stream, and a stream does not say why. If the session is over, the page leads to the form.
  if (event.detail.source?.readyState === EventSource.CLOSED) refresh();
});
document.addEventListener("htmx:sseOpen", () => setConnected(true));

// Selection: boxes with the name "job" in a form with the class "choosing".

function showSelection() {
  for (const form of document.querySelectorAll("form.choosing")) {
    const boxes = [...form.querySelectorAll("input[name=job]")];
    const number = boxes.filter((box) => box.checked).length;
    form.classList.toggle("has-chosen", number > 0);
    for (const each of form.querySelectorAll("[data-chosen]")) each.textContent = number;
    const all = form.querySelector("input[data-all]");
    if (all) { all.checked = number > 0 && number === boxes.length; all.indeterminate = number > 0 && number < boxes.length; }
  }
}
document.addEventListener("change", (event) => {
  const form = event.target.closest("form.choosing");
  if (form && event.target.matches("input[data-all]")) for (const box of form.querySelectorAll("input[name=job]")) box.checked = event.target.checked;
  showSelection();
});
addEventListener("DOMContentLoaded", showSelection);
document.addEventListener("reset", () => setTimeout(showSelection));

// Keys. Letters are off in fields, and everywhere for a person who turned them off on the page of keys.

const GO = { f: "/", j: "/jobs", b: "/batches", s: "/services", r: "/retries", w: "/workers" };
const root = () => document.querySelector("a.brand").getAttribute("href").replace(/\/$/, "");
const follow = (path) => document.querySelector(`a[href="${root()}${path}"]:not(.brand)`)?.click();
let isGoing = false;

const rows = () => [...document.querySelectorAll("#content [data-row]")];
const current = () => content().querySelector("[data-row].is-current") ?? content().querySelector("[data-row]:focus-within");

function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(current());
  const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + step))];
  current()?.classList.remove("is-current");
  next.classList.add("is-current");
  (next.querySelector("a[data-open]") ?? next).focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

// In the line that is marked, or outside of all lines.
function use(selector) {
  const outside = [...content().querySelectorAll(selector)].filter((each) => !each.closest("[data-row]") && each.getClientRects().length);
  (current()?.querySelector(selector) ?? outside[0])?.click();
}

function leave() {
  const open = document.querySelectorAll("details.asking[open]");
  if (!isTyping() && !open.length) {
    for (const form of document.querySelectorAll("form.choosing")) form.reset();
    current()?.classList.remove("is-current");
  }
  document.activeElement?.blur();
  for (const each of open) each.open = false;
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  Enter: () => current()?.querySelector("a[data-open]")?.click(),
  x: () => current()?.querySelector("input[name=job]")?.click(),
  X: () => content().querySelector("input[data-all]")?.click(),
  r: () => use("[data-key=r]"),
  i: () => use("[data-key=i]"),
  e: () => use("[data-key=e]"),
  "/": () => part("find")?.focus(),
  "?": () => follow("/help"),
  "]": () => use("a[rel=next]"),
  "[": () => history.back(),
  g: () => { isGoing = true; setTimeout(() => { isGoing = false; }, 1000); },
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    leave();
    return;
  }
  if (document.documentElement.dataset.letters === "off") return;
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping()) return;
  if (isGoing && event.key in GO) { isGoing = false; follow(GO[event.key]); return; }
  const act = KEYS[event.key];
  if (!act || (event.key === "Enter" && document.activeElement?.matches("a, button, summary"))) return;
  event.preventDefault();
  act();
});

// A link such as #ignore opens the question with that id.

addEventListener("load", () => {
  const asked = part(location.hash.slice(1));
  if (!asked?.matches("details.asking")) return;
  asked.open = true;
  asked.querySelector("form input:not([type=hidden]), form select, form button")?.focus();
});
