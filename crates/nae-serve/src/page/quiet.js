// Whether alarms of the shown camera are raised, the reason if not, and the buttons that pause and resume them.
// `page.js` defines what is used here, and starts this.
"use strict";

const quiet = { alarms: null, since: 0 };

const isQuiet = (alarms) => Boolean(alarms) && alarms.state !== "on";

// The reason why no alarms are raised, `gone` seconds after the service's answer.
function quietText(alarms, gone = 0) {
  if (!isQuiet(alarms)) return "";
  if (alarms.state === "paused") return "alarms paused";
  if (alarms.state === "snoozed") return `alarms paused for ${span(Math.max(0, alarms.seconds_left - gone))}`;
  if (!alarms.on_at) return "no alarms by schedule";
  const time = new Date(alarms.on_at).toLocaleString([], { weekday: "short", hour: "2-digit", minute: "2-digit" });
  return `no alarms until ${time}`;
}

function showQuiet(alarms) {
  Object.assign(quiet, { alarms, since: performance.now() });
  drawQuiet();
}

function drawQuiet() {
  const { alarms, since } = quiet;
  chip("quiet", quietText(alarms, (performance.now() - since) / 1000), isQuiet(alarms) ? "warn" : "");
  const byPerson = alarms?.state === "paused" || alarms?.state === "snoozed";
  element("quiet-buttons").hidden = !state.summary?.may_change;
  element("pause").hidden = alarms?.state === "paused";
  element("resume").hidden = !byPerson;
}

function resetQuiet() {
  showQuiet(null);
  element("quiet-problem").textContent = "";
}

async function askQuiet(action, value) {
  try {
    const { alarms } = await post(own(`/${action}`), value);
    showQuiet(alarms);
    clearAlarm();
    element("quiet-problem").textContent = "";
  } catch (error) {
    element("quiet-problem").textContent = error.message;
  }
}

function startQuiet() {
  for (const button of element("quiet-buttons").querySelectorAll("button[data-minutes]")) {
    button.addEventListener("click", () => askQuiet("pause", { minutes: Number(button.dataset.minutes) }));
  }
  element("pause").addEventListener("click", () => askQuiet("pause", {}));
  element("resume").addEventListener("click", () => askQuiet("resume", {}));
  setInterval(() => quiet.alarms?.state === "snoozed" && drawQuiet(), 1000);
}
