// What a campaign says while it is watched. Without this script the page still reads itself again when something changed.
"use strict";

function find(event) {
  const data = JSON.parse(event.data);
  const row = document.querySelector(`[data-token-id="${CSS.escape(data.token_id)}"]`);
  return { data, row, badge: row?.querySelector(".status-badge") };
}

function showFailure(event) {
  const { data, row, badge } = find(event);
  if (!row) return;
  badge.textContent = "FAILED";
  badge.className = "status-badge status-failed";
  const error = row.querySelector(".error-details");
  if (error) { error.textContent = data.error; error.parentElement.removeAttribute("hidden"); }
  row.querySelector(".retry-form")?.removeAttribute("hidden");
}

function showProgress(event) {
  const { data, badge } = find(event);
  if (!badge || badge.classList.contains("status-failed")) return;
  badge.textContent = `PROCESSING ${data.percent} %`;
  badge.className = "status-badge status-processing";
}

addEventListener("DOMContentLoaded", () => {
  const address = document.getElementById("campaign-live")?.dataset.events;
  if (!address) return;
  const events = new EventSource(address);
  events.addEventListener("token_failed", showFailure);
  events.addEventListener("token_progress", showProgress);
  addEventListener("pagehide", () => events.close());
});
