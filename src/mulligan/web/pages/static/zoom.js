// A chart that can be zoomed: drag over a time, click twice to see all. The server draws the same without this script.
"use strict";

const SORTS = { open: "--held", recovering: "--running" };
let zoomed = null;

const colour = (name) => {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};
const two = (number) => String(number).padStart(2, "0");
const label = (seconds, step) => {
  const at = new Date(seconds * 1000);
  const isDay = step >= 86400 || (at.getUTCHours() === 0 && at.getUTCMinutes() === 0);
  return isDay ? at.toUTCString().slice(5, 11) : `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
};
const clear = (found, part) => found.replace("rgb(", "rgba(").replace(")", `, ${part})`);

function drawBands(plot, bands) {
  const { ctx, bbox } = plot;
  for (const [sort, start, end] of bands) {
    const from = Math.max(bbox.left, plot.valToPos(start, "x", true));
    const to = Math.min(bbox.left + bbox.width, plot.valToPos(end, "x", true));
    if (to <= from) continue;
    ctx.fillStyle = clear(colour(SORTS[sort]), 0.12);
    ctx.fillRect(from, bbox.top, to - from, bbox.height);
  }
}

function options(place, course) {
  const axis = { stroke: colour("--ink-3"), grid: { stroke: colour("--rule"), width: 1 }, ticks: { show: false }, font: "11px sans-serif" };
  const line = { width: 1.75, points: { show: false } };
  return {
    width: place.clientWidth,
    height: 240,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    legend: { live: true },
    axes: [{ ...axis, values: (_, all, __, ___, step) => all.map((each) => label(each, step)) }, { ...axis, size: 42 }],
    series: [
      { value: (_, at) => (at === null ? "" : new Date(at * 1000).toISOString().slice(5, 16).replace("T", " ")) },
      { ...line, label: "attempts a minute", stroke: colour("--running") },
      { ...line, label: "did not succeed", stroke: colour("--failed"), fill: clear(colour("--failed"), 0.6) },
    ],
    hooks: { drawClear: [(plot) => drawBands(plot, course.bands)] },
  };
}

function show() {
  const place = document.getElementById("zoom");
  if (!place || !window.uPlot) return;
  const text = place.dataset.course;
  if (zoomed?.text === text && place.firstChild) return;
  // While a person looks at a part, it stays.
  if (zoomed && place.firstChild && zoomed.plot.scales.x.min > zoomed.first) return;
  const course = JSON.parse(text);
  place.replaceChildren();
  const plot = new uPlot(options(place, course), [course.times, course.ended, course.failed], place);
  zoomed = { text, plot, first: course.times[0] };
}

function toggle(button) {
  const isOn = document.documentElement.classList.toggle("is-zoomed");
  button.setAttribute("aria-pressed", isOn);
  if (isOn) show();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-zoom]");
  if (button) toggle(button);
});
document.addEventListener("htmx:afterSwap", () => {
  if (!document.documentElement.classList.contains("is-zoomed")) return;
  document.querySelector("[data-zoom]")?.setAttribute("aria-pressed", "true");
  show();
});
addEventListener("DOMContentLoaded", () => {
  document.documentElement.classList.add("has-zoom");
  if (!window.Idiomorph) return;
  // The drawing is no part of what the server sends.
  Idiomorph.defaults.callbacks.beforeNodeRemoved = (node) => !node.parentElement?.closest(".zoom");
});
