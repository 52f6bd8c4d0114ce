// The history of the shown camera: energies of hours to weeks with the alarms among them, as the service stores them on
// disk. `page.js` defines what is used here, and starts this; `learn.js` has the function that saves a file.
"use strict";

const past = { span: 86400, back: 0, chart: null, asked: 0, tick: 0 };

// A time as text: short for the labels below the chart, or in full.
function historyTime(time, full) {
  const date = new Date(time);
  if (full) return date.toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
  const day = { day: "numeric", month: "short" };
  const clock = { hour: "2-digit", minute: "2-digit" };
  return date.toLocaleString([], past.span > 2 * 86400 ? day : past.span > 43200 ? { ...day, ...clock } : clock);
}

// Divides slices into pieces without gaps, each of one model.
function historyPieces(slices) {
  const pieces = [];
  for (const slice of slices) {
    const before = pieces.at(-1)?.at(-1);
    const near = before && slice.begin - before.end <= 2000 * Math.max(slice.seconds, before.seconds);
    if (near && before.model === slice.model && before.night === slice.night) pieces.at(-1).push(slice);
    else pieces.push([slice]);
  }
  return pieces;
}

function drawHistory() {
  const { chart } = past;
  const root = element("history-chart");
  const [width, height] = [root.clientWidth, root.clientHeight];
  if (!chart || !width) return;
  root.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const [left, right, top, bottom] = [52, width - 8, 16, height - 20];
  const values = chart.slices.flatMap(({ min, max, threshold }) => [min, max, threshold]).filter((value) => value > 0);
  if (values.length === 0) values.push(1);
  // There are few enough values for a loop; on a logarithmic axis, normal frames and anomalies are both visible.
  const low = Math.log10(values.reduce((a, b) => Math.min(a, b))) - 0.1;
  const high = Math.log10(values.reduce((a, b) => Math.max(a, b))) + 0.1;
  const x = (time) => left + ((time - chart.begin) / (chart.end - chart.begin)) * (right - left);
  const y = (energy) => bottom - ((Math.log10(Math.max(energy, 10 ** low)) - low) / (high - low)) * (bottom - top);
  const at = (time, energy) => `${x(time).toFixed(1)},${y(energy).toFixed(1)}`;
  const drawn = [];
  for (let i = 0; i <= 4; i += 1) {
    const energy = 10 ** (low + ((high - low) * i) / 4);
    drawn.push(svg("path", { class: "grid", d: `M${left},${y(energy)}H${right}` }));
    drawn.push(svg("text", { x: left - 6, y: y(energy) + 4, "text-anchor": "end" }, energy.toPrecision(2)));
  }
  const places = width < 480 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  for (const share of places) {
    const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
    const time = chart.begin + share * (chart.end - chart.begin);
    drawn.push(svg("text", { x: x(time), y: height - 4, "text-anchor": anchor }, historyTime(time)));
  }
  for (const piece of historyPieces(chart.slices)) {
    const ends = piece.flatMap(({ begin, end, min, max, mean, threshold }) =>
      [{ time: begin, min, max, mean, threshold }, { time: end, min, max, mean, threshold }]);
    if (piece[0].night) {
      const [begin, end] = [x(ends[0].time), x(ends.at(-1).time)];
      drawn.push(svg("rect", { class: "night", x: begin, y: top, width: Math.max(0, end - begin), height: bottom - top }));
    }
    const line = (name) => ends.map((point) => at(point.time, point[name])).join("L");
    drawn.push(svg("path", { class: "band", d: `M${line("max")}L${ends.toReversed().map((p) => at(p.time, p.min)).join("L")}Z` }));
    drawn.push(svg("path", { class: "mean", d: `M${line("mean")}` }));
    if (ends.every(({ threshold }) => threshold !== null)) {
      drawn.push(svg("path", { class: "threshold", d: `M${line("threshold")}` }));
    }
  }
  for (const alarm of chart.alarms) {
    const place = x(alarm.begin);
    const mark = svg("g", { class: "alarm" });
    mark.append(svg("title", {}, `Alarm ${alarm.number}, ${historyTime(alarm.begin, true)}, energy ${short(alarm.energy)}`));
    mark.append(svg("path", { d: `M${place},${top}V${bottom}M${place - 5},2H${place + 5}L${place},${top}Z` }));
    drawn.push(mark);
  }
  const moment = chart.slices[Number(element("history-moment").value)];
  if (moment) drawn.push(svg("path", { class: "moment", d: `M${x((moment.begin + moment.end) / 2)},${top}V${bottom}` }));
  root.replaceChildren(...drawn);
}

// Shows the values at the selected moment, chosen by the pointer or by the keys of the slider.
function tellMoment() {
  const { chart } = past;
  const slice = chart?.slices[Number(element("history-moment").value)];
  let text = "";
  if (slice) {
    const alarms = chart.alarms.filter(({ begin }) => begin >= slice.begin && begin < slice.end).map(({ number }) => number);
    const frames = slice.count === 1 ? "1 frame" : `${slice.count} frames`;
    text = `${historyTime(slice.begin, true)}: ${frames}, energy ${short(slice.min)} to ${short(slice.max)}, mean ${short(slice.mean)}, ` +
      `threshold ${short(slice.threshold)}${slice.night ? ", model of the night" : ""}${alarms.length ? `, alarm ${alarms.join(", ")}` : ""}`;
  }
  element("history-at").textContent = text;
  element("history-moment").setAttribute("aria-valuetext", text);
}

async function readHistoryFile() {
  const { span, back } = past;
  const asked = (past.asked += 1);
  const points = Math.min(600, Math.max(50, Math.floor(element("history-chart").clientWidth / 2) || 300));
  try {
    const to = back ? `&to=${span * back}` : "";
    const chart = await get(own(`/history/interval?from=${span * (back + 1)}${to}&points=${points}`));
    // Another interval may have been requested meanwhile.
    if (asked !== past.asked) return;
    Object.assign(chart, { begin: Date.parse(chart.from), end: Date.parse(chart.to) });
    for (const slice of chart.slices) {
      slice.begin = Date.parse(slice.time);
      slice.end = slice.begin + 1000 * slice.seconds;
    }
    for (const alarm of chart.alarms) alarm.begin = Date.parse(alarm.time);
    past.chart = chart;
    element("history-shown").hidden = false;
    const moment = element("history-moment");
    const last = Math.max(0, chart.slices.length - 1);
    const atEnd = moment.value === moment.max;
    moment.max = last;
    if (atEnd) moment.value = last;
    const more = chart.more_alarms ? "There are more alarms than are marked." : "";
    element("history-note").textContent = chart.slices.length + chart.alarms.length ? more : "Nothing in this span.";
    const query = `from=${encodeURIComponent(chart.from)}&to=${encodeURIComponent(chart.to)}`;
    element("history-csv").href = own(`/history.csv?${query}`);
    element("history-alarms-csv").href = own(`/alarms.csv?${query}`);
    drawHistory();
    tellMoment();
  } catch (error) {
    if (asked !== past.asked) return;
    past.chart = null;
    element("history-shown").hidden = true;
    element("history-note").textContent = error.message;
  }
}

function showHistorySpan() {
  for (const button of document.querySelectorAll("[data-history]")) {
    button.ariaPressed = String(Number(button.dataset.history) === past.span);
  }
  element("history-later").disabled = past.back === 0;
}

function chooseHistory(span, back) {
  Object.assign(past, { span, back });
  showHistorySpan();
  readHistoryFile();
}

function resetHistory() {
  Object.assign(past, { back: 0, chart: null, asked: past.asked + 1 });
  for (const id of ["history-note", "history-at", "history-problem"]) element(id).textContent = "";
  element("history-chart").replaceChildren();
  showHistorySpan();
  if (state.camera) readHistoryFile();
}

function startHistory() {
  for (const button of document.querySelectorAll("[data-history]")) {
    button.addEventListener("click", () => chooseHistory(Number(button.dataset.history), 0));
  }
  element("history-earlier").addEventListener("click", () => chooseHistory(past.span, past.back + 1));
  element("history-later").addEventListener("click", () => chooseHistory(past.span, Math.max(0, past.back - 1)));
  element("history-moment").addEventListener("input", () => {
    drawHistory();
    tellMoment();
  });
  element("history-chart").addEventListener("pointermove", (event) => {
    const { chart } = past;
    const box = element("history-chart").getBoundingClientRect();
    const time = chart && chart.begin + ((event.clientX - box.left - 52) / (box.width - 60)) * (chart.end - chart.begin);
    const nearest = chart?.slices.reduce((best, { begin }, at) =>
      (Math.abs(begin - time) < Math.abs(chart.slices[best].begin - time) ? at : best), 0);
    if (!chart?.slices.length) return;
    element("history-moment").value = nearest;
    drawHistory();
    tellMoment();
  });
  for (const [id, name] of [["history-csv", "history.csv"], ["history-alarms-csv", "alarms.csv"]]) {
    const link = element(id);
    link.addEventListener("click", (event) =>
      save(event, link.getAttribute("href"), `${state.camera}-${name}`, "history-problem").catch(console.warn));
  }
  new ResizeObserver(drawHistory).observe(element("history-chart"));
  // As often as there is something new; a view of the past is not refreshed.
  setInterval(() => {
    past.tick += 1;
    const due = past.tick % (past.span > 3600 ? 6 : 1) === 0;
    if (state.camera && due && past.back === 0 && !document.hidden && !element("watch").hidden) readHistoryFile();
  }, 10000);
}
