// The page of `nae-infer serve`: all cameras, if there are several, or the one in the address after its #. It sends
// requests only to this service; texts from frames and models are inserted as text, never as HTML.
"use strict";

const element = (id) => document.getElementById(id);
// Creates a part of a drawing.
const svg = (name, attributes, text) => {
  const made = document.createElementNS(element("outlines").namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
};
const token = { value: sessionStorage.getItem("token") };
const state = { camera: null, summary: null, points: [], span: 600, wanted: null, told: 0, view: new AbortController(),
  // When the last frame was taken, by `performance.now()`, or null; and whether the service answers.
  taken: null, connected: false };

// A computer that is switched off does not close its connections: after this time in milliseconds without an answer, or without
// an event or one of the comments that the service sends every 15 seconds, there is none.
const patience = { answer: 20000, event: 40000 };

// Requests are aborted when their view ends, those for reading also when they take too long. What changes something may take
// longer.
async function ask(path, options = {}) {
  const headers = new Headers(options.headers);
  if (token.value) headers.set("authorization", `Bearer ${token.value}`);
  const limit = options.signal ?? (options.method ? null : AbortSignal.timeout(patience.answer));
  const signal = limit ? AbortSignal.any([state.view.signal, limit]) : state.view.signal;
  const response = await fetch(path, { ...options, headers, cache: "no-store", signal });
  if (response.status === 401) {
    showLogin(token.value ? "The service does not take this token." : "");
    throw new Error("a token is needed");
  }
  // With a token that may only score, the page could show nothing. Read requests are only limited after wrong tokens.
  const isForScoring = response.status === 403 && path === "/api/cameras";
  const isLimited = response.status === 429 && !options.method;
  if (isForScoring || isLimited) {
    const problem = (await response.json()).error;
    showLogin(problem);
    throw new Error(problem);
  }
  return response;
}

// An address of the shown camera.
const own = (path) => `/api/cameras/${state.camera}${path}`;

async function get(path) {
  const response = await ask(path);
  const value = await response.json();
  if (!response.ok) throw new Error(value.error);
  return value;
}

async function post(path, value) {
  const headers = { "content-type": "application/json" };
  const response = await ask(path, { method: "POST", headers, body: JSON.stringify(value) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

// Pictures also need the token, so that their addresses cannot be used directly.
async function draw(image, path) {
  const response = await ask(path);
  if (!response.ok) return;
  const blob = await response.blob();
  // The image was replaced meanwhile, and its object URL would never be revoked.
  if (!image.isConnected) return;
  const old = image.src;
  image.src = URL.createObjectURL(blob);
  try {
    await image.decode();
  } finally {
    if (old) URL.revokeObjectURL(old);
  }
}

// The box gets the frame's proportions, so that a heat map with other proportions fits when it is stretched.
async function drawFrame(image, path) {
  await draw(image, path);
  if (image.naturalWidth) image.parentElement.style.aspectRatio = image.naturalWidth / image.naturalHeight;
}

function showLogin(problem) {
  element("watch").hidden = true;
  element("all").hidden = true;
  element("login").hidden = false;
  element("login-problem").textContent = problem;
}

const short = (value) => (value === null || value === undefined ? "–" : Number(value).toPrecision(3));

function chip(id, text, kind, title = "") {
  element(id).textContent = text;
  element(id).className = `chip ${kind}`;
  element(id).title = title;
}

// True until a model is learned, if the settings name none.
const hasNoModel = () => state.summary?.model === null;

// Why nobody can tell whether a camera with a model shows what is normal: a text and a reason, or null.
function unwatched(camera) {
  if (camera.model === null) return null;
  if (!camera.scoring) return { text: "not scored", reason: "The model does not return: exchange it, or restart the service." };
  if (camera.failure) return { text: "not scored", reason: camera.failure };
  const idle = { lost: camera.source_reason, ended: "The source has ended.", opening: "The source is being opened.",
    none: "This camera has no source: only what clients send is scored." };
  const reason = idle[camera.source_state];
  return reason === undefined ? null : { text: "not watched", reason };
}

function showTitle(alarm) {
  document.title = alarm ? `${alarm} – nae-infer` : "nae-infer";
}

// The state of the shown camera.
function showAlarm() {
  const s = state.summary;
  const problem = unwatched(s);
  if (s.alarm) chip("alarm", "Alarm", "bad");
  else if (problem) chip("alarm", problem.text, "warn", problem.reason);
  // In that case, it is not checked whether everything is normal.
  else if (isQuiet(quiet.alarms)) chip("alarm", "", "");
  else if (hasNoModel()) chip("alarm", "no model yet", "warn");
  else chip("alarm", "Normal", "good");
  // As text, too: touch screens and keyboards do not show the titles of chips.
  element("reason").textContent = problem?.reason ?? s.source_reason ?? "";
  showTitle(s.alarm ? "Alarm" : null);
}

// An old frame must not be taken for the camera's view: it is dimmed, and its age is shown.
function showAge() {
  const age = state.taken === null ? null : (performance.now() - state.taken) / 1000;
  element("age").textContent = age !== null && age >= 5 ? `${span(age)} ago` : "";
  const open = state.connected && state.summary?.source_state !== "lost" && state.summary?.source_state !== "ended";
  element("live").classList.toggle("old", !open);
}

// Nothing on the page is known to be true any more.
function showNoConnection() {
  state.connected = false;
  chip("alarm", "no connection", "warn");
  for (const id of ["source", "drift"]) chip(id, "", "");
  element("reason").textContent = "";
  showTitle("no connection");
  showEnergy(null);
  showAge();
}

// Pauses and a change between day and night end an alarm.
function clearAlarm() {
  state.summary.alarm = false;
  showAlarm();
}

function showDrift(drift) {
  if (drift === "steady") chip("drift", "", "");
  else chip("drift", `energies are ${drift}`, "warn");
}

const sourceTexts = { connected: "camera connected", lost: "camera lost", ended: "camera ended", opening: "opening camera",
  none: "no camera" };
function showSource(name, reason) {
  chip("source", sourceTexts[name] ?? name, name === "connected" ? "good" : name === "lost" ? "warn" : "", reason ?? "");
}

// The slider covers the rates that the calibration can give, on a logarithmic scale.
const rateLimits = () => [Math.max(1e-4, (state.summary.smallest_rate ?? 1e-3) * 1.001), 0.2];
function sliderRate() {
  const [low, high] = rateLimits();
  return low * (high / low) ** (element("rate").value / 100);
}
function setSlider(rate) {
  const [low, high] = rateLimits();
  element("rate").value = Math.round((100 * Math.log(rate / low)) / Math.log(high / low));
}

async function refresh() {
  const told = state.told;
  const [s, all] = await Promise.all([get(own("/state")), get("/api/cameras")]);
  const age = all.find(({ name }) => name === state.camera)?.age ?? null;
  Object.assign(state, { summary: s, connected: true, taken: age === null ? null : performance.now() - 1000 * age });
  element("login").hidden = true;
  element("watch").hidden = false;
  showQuiet(s.alarms);
  showDayNightChip(s.day_night);
  showAlarm();
  showDrift(s.drift);
  showSource(s.source_state, s.source_reason);
  showAge();
  element("threshold").textContent = short(s.threshold);
  element("tune").hidden = s.threshold === null || !s.may_change;
  showModel();
  if (s.false_positive_rate) {
    setSlider(s.false_positive_rate);
    await showWhatIf();
  }
  const rows = [["source", s.source], ["nae-infer", s.version], ["digest", s.model ?? "no model yet"], ...s.card].map(([name, text]) => {
    const row = document.createElement("tr");
    for (const cell of [name, text]) row.insertCell().textContent = cell;
    return row;
  });
  element("card").replaceChildren(...rows);
  // The pictures of alarms also have outlines.
  await showRegions();
  await showDayNight();
  // A frame announced meanwhile is newer than the last one of the summary.
  const latest = state.told === told ? s.latest : null;
  await Promise.all([readHistory(), showAlarms(), showFrame(latest), showLearn()]);
}

// Without a model, the controls for learning one replace those for watching, also for the keyboard.
function showModel() {
  const none = hasNoModel();
  element("watch").classList.toggle("no-model", none);
  element("no-model").hidden = !none;
  element("figures").hidden = none;
  (none ? element("time") : element("about")).before(element("learn"));
  if (none) element("heat").removeAttribute("src");
}

async function readHistory() {
  const slices = await get(own(`/history?seconds=${state.span}`));
  const now = performance.now() / 1000;
  state.points = slices.map(({ ago, energy }) => ({ at: now - ago, energy }));
}

async function showAlarms() {
  const alarms = await get(own("/alarms"));
  element("no-alarm").hidden = alarms.length > 0;
  const items = alarms.slice(0, 24).map((alarm) => {
    const item = document.createElement("li");
    if (alarm.has_picture) {
      const box = document.createElement("div");
      box.className = "picture";
      const image = new Image();
      const heat = new Image();
      heat.className = "heat";
      image.alt = `The frame of alarm ${alarm.number}`;
      heat.alt = "";
      box.append(...[image, heat, outlinesOf(alarm.regions)].filter(Boolean));
      item.append(box);
      drawFrame(image, own(`/alarms/${alarm.number}/image`)).catch(console.warn);
      draw(heat, own(`/alarms/${alarm.number}/heat-map`)).catch(console.warn);
    }
    const time = document.createElement("time");
    time.dateTime = alarm.time;
    time.textContent = new Date(alarm.time).toLocaleString();
    item.append(time, document.createElement("br"));
    item.append(`energy ${short(alarm.energy)}${alarm.frame ? `, ${alarm.frame}` : ""}`);
    return item;
  });
  for (const image of element("alarms").querySelectorAll("img")) URL.revokeObjectURL(image.src);
  element("alarms").replaceChildren(...items);
}

// Dashes without a frame.
function showEnergy(frame) {
  element("energy").textContent = short(frame?.energy);
  element("energy").className = frame?.anomaly ? "bad" : "";
  element("p-value").textContent = short(frame?.p_value);
}

// Loads one picture at a time; the newest that was announced meanwhile is next.
async function showFrame(frame) {
  if (frame) {
    // While frames cannot be scored, this one is not the last.
    showEnergy(state.summary.failure ? null : frame);
    element("frame").textContent = `frame ${frame.number}${frame.name ? `, ${frame.name}` : ""}`;
  }
  state.wanted = true;
  if (showFrame.busy) return;
  showFrame.busy = true;
  while (state.wanted) {
    state.wanted = false;
    try {
      await Promise.all([
        drawFrame(element("image"), own("/latest/image")),
        element("show-heat").checked && !hasNoModel() ? draw(element("heat"), own("/latest/heat-map")) : null,
      ]);
      element("no-frame").hidden = element("image").hasAttribute("src");
    } catch (error) {
      console.warn(error);
    }
    await new Promise((resume) => setTimeout(resume, 100));
  }
  showFrame.busy = false;
}

async function showWhatIf() {
  const rate = sliderRate();
  element("rate-value").textContent = `${(100 * rate).toPrecision(2)}% of normal frames`;
  try {
    const w = await get(own(`/what-if?false_positive_rate=${rate}`));
    state.whatIf = w.threshold;
    const span = w.frames === 0 ? "No frame in the last hour." : `The last hour would have had ${w.anomalies} anomalies
      among ${w.frames} frames, and ${w.alarms} ${w.alarms === 1 ? "alarm" : "alarms"}.`;
    element("what-if").textContent = `Threshold ${short(w.threshold)}. ${span}`;
  } catch (error) {
    element("what-if").textContent = error.message;
  }
}

function drawChart() {
  const canvas = element("chart");
  const scale = window.devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== width * scale) [canvas.width, canvas.height] = [width * scale, height * scale];
  const c = canvas.getContext("2d");
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.clearRect(0, 0, width, height);
  const css = getComputedStyle(document.documentElement);
  const colour = (name) => css.getPropertyValue(`--${name}`);
  const now = performance.now() / 1000;
  state.points = state.points.filter((p) => now - p.at <= state.span);
  // Energies of two models are only comparable relative to their thresholds: with a second model, energies are shown as
  // multiples of these.
  const [mine, other] = [state.summary?.threshold, learn.status?.shadow?.threshold];
  const both = Boolean(mine && other);
  const alone = hasNoModel() && Boolean(learn.status?.shadow);
  const unitOf = both ? mine : 1;
  const threshold = alone ? other : mine ? mine / unitOf : mine;
  const points = state.points.map(({ at, energy }) => ({ at, energy: energy / unitOf }));
  const beside = both ? learn.points.map(({ at, energy }) => ({ at, energy: energy / other })) : alone ? learn.points : [];
  const [left, right, top, bottom] = [52, width - 8, 8, height - 22];
  // On a logarithmic axis, normal frames and anomalies are both visible.
  const energies = [...points, ...beside].map((p) => p.energy).filter((e) => e > 0);
  if (threshold) energies.push(threshold);
  if (energies.length === 0) energies.push(1);
  const low = Math.log10(Math.min(...energies)) - 0.1;
  const high = Math.log10(Math.max(...energies)) + 0.1;
  const x = (at) => right - ((now - at) / state.span) * (right - left);
  const y = (energy) => bottom - ((Math.log10(Math.max(energy, 10 ** low)) - low) / (high - low)) * (bottom - top);
  c.font = "12px system-ui, sans-serif";
  c.textBaseline = "middle";
  c.textAlign = "right";
  c.lineWidth = 1;
  for (let i = 0; i <= 4; i += 1) {
    const energy = 10 ** (low + ((high - low) * i) / 4);
    c.strokeStyle = colour("line");
    c.beginPath();
    c.moveTo(left, y(energy));
    c.lineTo(right, y(energy));
    c.stroke();
    c.fillStyle = colour("faint");
    c.fillText(both ? `${energy.toPrecision(2)}×` : energy.toPrecision(2), left - 6, y(energy));
  }
  c.textBaseline = "bottom";
  const unit = state.span > 120 ? [60, "min"] : [1, "s"];
  for (const share of [1, 0.5, 0]) {
    c.textAlign = share === 1 ? "left" : share === 0 ? "right" : "center";
    const text = share === 0 ? "now" : `−${(share * state.span) / unit[0]} ${unit[1]}`;
    c.fillText(text, right - share * (right - left), height - 2);
  }
  const line = (energy, name, dash) => {
    c.strokeStyle = colour(name);
    c.setLineDash(dash);
    c.beginPath();
    c.moveTo(left, y(energy));
    c.lineTo(right, y(energy));
    c.stroke();
    c.setLineDash([]);
  };
  if (threshold) line(threshold, "alarm", [6, 4]);
  if (state.whatIf && state.whatIf !== mine) line(state.whatIf / unitOf, "faint", [2, 4]);
  for (const point of points) {
    c.fillStyle = threshold && point.energy > threshold ? colour("alarm") : colour("accent");
    c.fillRect(x(point.at) - 1.5, y(point.energy) - 1.5, 3, 3);
  }
  c.strokeStyle = colour("warn");
  for (const point of beside) {
    c.beginPath();
    c.arc(x(point.at), y(point.energy), 3, 0, 2 * Math.PI);
    c.stroke();
  }
}

function happened(event) {
  const s = state.summary;
  if (event.event === "frame" || event.event === "unscored") {
    state.told += 1;
    state.taken = performance.now();
    showAge();
  }
  if (event.event === "frame") {
    state.points.push({ at: performance.now() / 1000, energy: event.energy });
    if (state.points.length > 20000) state.points.splice(0, 5000);
    Object.assign(s, { alarm: event.alarm, failure: null, scoring: true });
    showAlarm();
    showDrift(event.drift);
    showFrame(event);
  } else if (event.event === "unscored") showFrame(event);
  else if (event.event === "unreadable") {
    s.failure = event.reason;
    showAlarm();
    showEnergy(null);
  } else if (event.event === "alarm") showAlarms().catch(console.warn);
  else if (event.event === "alarms") {
    showQuiet(event.alarms);
    clearAlarm();
  } else if (event.event === "day_night") {
    clearAlarm();
    refresh().catch(console.warn);
  } else if (event.event === "source") {
    Object.assign(s, { source_state: event.state, source_reason: event.reason });
    showSource(event.state, event.reason);
    showAlarm();
    showAge();
    // Other regions end an alarm, other names of regions do not.
  } else if (event.event === "model" || event.event === "regions") refresh().catch(console.warn);
}

const pause = (time) => new Promise((resume) => setTimeout(resume, time));

// Server-sent events by fetch, because EventSource cannot send a token.
async function watchOne({ signal }) {
  while (!signal.aborted) {
    const silence = new AbortController();
    let timer;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(new Error("the service is silent")), patience.event);
    };
    try {
      heard();
      // First, so that no change is missed between the state and the events.
      const events = await ask(`/events?camera=${state.camera}`, { signal: silence.signal });
      const reader = events.body.pipeThrough(new TextDecoderStream()).getReader();
      await refresh();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        heard();
        const parts = (text + value).split("\n\n");
        text = parts.pop();
        for (const part of parts) if (part.startsWith("data:")) happened(JSON.parse(part.slice(5)));
        // The service says in a comment how many events were too many for this connection.
        if (parts.some((part) => /^: ?\d+ missed/.test(part))) await refresh();
      }
    } catch (error) {
      if (signal.aborted || !element("login").hidden) return;
      console.warn(error);
    } finally {
      clearTimeout(timer);
    }
    showNoConnection();
    await pause(2000);
  }
}

function card(name) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = `#${name}`;
  const box = document.createElement("div");
  box.className = "picture";
  const image = new Image();
  image.alt = `The last frame of ${name}`;
  box.append(image);
  const head = document.createElement("div");
  head.className = "head";
  const title = document.createElement("h2");
  title.textContent = name;
  const alarm = document.createElement("span");
  const source = document.createElement("span");
  const noAlarms = document.createElement("span");
  const condition = document.createElement("span");
  head.append(title, alarm, noAlarms, condition, source);
  const bar = document.createElement("div");
  bar.className = "bar";
  bar.ariaHidden = "true";
  const filled = document.createElement("span");
  bar.append(filled);
  const [energy, reason, age] = [1, 2, 3].map(() => document.createElement("p"));
  reason.className = "warn";
  age.className = "faint";
  link.append(box, head, bar, energy, reason, age);
  item.append(link);
  return { item, link, image, alarm, noAlarms, condition, source, filled, energy, reason, age, number: null };
}

function span(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

function fill(shown, camera) {
  const badge = (element, text, kind) => {
    element.textContent = text;
    element.className = text ? `chip ${kind}` : "";
  };
  const [lost, ended] = ["lost", "ended"].map((name) => camera.source_state === name);
  const classes = { card: true, bad: camera.alarm, anomaly: camera.anomaly, lost, ended };
  shown.link.className = Object.keys(classes).filter((name) => classes[name]).join(" ");
  badge(shown.alarm, camera.alarm ? "Alarm" : "", "bad");
  badge(shown.noAlarms, quietText(camera.alarms), "warn");
  badge(shown.condition, camera.day_night?.condition === "night" ? dayNightText(camera.day_night) : "", "");
  const problem = unwatched(camera);
  badge(shown.source, problem?.text ?? (camera.source_state === "connected" ? "" : camera.source_state), "warn");
  shown.reason.textContent = problem?.reason ?? camera.source_reason ?? "";
  const ratio = camera.threshold && camera.energy !== null ? camera.energy / camera.threshold : 0;
  shown.filled.style.width = `${Math.min(100, 50 * ratio)}%`;
  shown.energy.textContent = camera.model === null ? "No model yet: learn one here."
    : `energy ${short(camera.energy)}, threshold ${short(camera.threshold)}`;
  const dropped = camera.dropped ? `, ${camera.dropped} dropped` : "";
  shown.age.textContent = camera.age === null ? "No frame yet" : `${span(camera.age)} ago${dropped}`;
}

async function watchAll({ signal }) {
  const cards = new Map();
  while (!signal.aborted) {
    try {
      const cameras = await get("/api/cameras");
      element("all").hidden = false;
      element("all").classList.remove("old");
      const drawn = cameras.map((camera) => {
        if (!cards.has(camera.name)) cards.set(camera.name, card(camera.name));
        const shown = cards.get(camera.name);
        fill(shown, camera);
        if (camera.number === shown.number) return null;
        shown.number = camera.number;
        return draw(shown.image, `/api/cameras/${camera.name}/latest/thumbnail`).catch(console.warn);
      });
      const items = cameras.map((camera) => cards.get(camera.name).item);
      if (element("cameras").childElementCount !== items.length) element("cameras").replaceChildren(...items);
      const count = (which) => cameras.filter(which).length;
      const [alarms, problems, without] = [(camera) => camera.alarm, unwatched, (camera) => camera.model === null].map(count);
      const text = alarms === 1 ? "1 alarm" : `${alarms} alarms`;
      if (alarms) chip("alarm", text, "bad");
      // Not shown as normal, since these cameras are not watched.
      else if (problems) chip("alarm", `${problems} not watched`, "warn");
      else if (without) chip("alarm", `${without} without a model`, "warn");
      else chip("alarm", "Normal", "good");
      showTitle(alarms ? text : null);
      const lost = count((camera) => camera.source_state === "lost");
      chip("source", lost ? `${lost} of ${cameras.length} cameras lost` : `${cameras.length} cameras`, lost ? "warn" : "");
      await Promise.all(drawn);
    } catch (error) {
      if (signal.aborted || !element("login").hidden) return;
      console.warn(error);
      showNoConnection();
      element("all").classList.add("old");
      for (const { age } of cards.values()) age.textContent = "";
    }
    await pause(1000);
  }
}

// Shows the view of the address, from the beginning.
async function showView() {
  state.view.abort();
  const view = new AbortController();
  Object.assign(state, { view, camera: null, summary: null, points: [], wanted: null, whatIf: null, taken: null, connected: false });
  let names = null;
  while (!names) {
    try {
      names = (await get("/api/cameras")).map((camera) => camera.name);
    } catch (error) {
      if (view.signal.aborted || !element("login").hidden) return;
      console.warn(error);
      chip("alarm", "no connection", "warn");
      await pause(2000);
    }
  }
  if (view.signal.aborted) return;
  const wanted = location.hash.slice(1);
  state.camera = names.length === 1 ? names[0] : names.find((name) => name === wanted) ?? null;
  element("login").hidden = true;
  element("watch").hidden = true;
  element("all").hidden = true;
  element("back").hidden = names.length === 1 || !state.camera;
  element("name").textContent = names.length > 1 && state.camera ? state.camera : "";
  for (const id of ["source", "drift"]) chip(id, "", "");
  for (const image of document.images) URL.revokeObjectURL(image.src);
  for (const id of ["image", "heat"]) element(id).removeAttribute("src");
  for (const id of ["frame", "age", "reason", "change", "what-if", "rate-value"]) element(id).textContent = "";
  showEnergy(null);
  element("threshold").textContent = short(null);
  element("no-frame").hidden = false;
  element("alarms").replaceChildren();
  resetLearn();
  resetQuiet();
  resetRegions();
  resetDayNight();
  resetHistory();
  element("cameras").replaceChildren();
  await (state.camera ? watchOne(view) : watchAll(view));
}

async function change(make, done) {
  try {
    const changed = await make();
    element("change").textContent = typeof done === "function" ? done(changed) : done;
  } catch (error) {
    element("change").textContent = error.message;
  }
}

element("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token.value = element("token").value;
  sessionStorage.setItem("token", token.value);
  element("login").hidden = true;
  showView();
});
window.addEventListener("hashchange", showView);
element("to-learn").addEventListener("click", () => {
  element("learn").scrollIntoView();
  document.querySelector("#learn button:enabled")?.focus();
});
element("rate").addEventListener("input", () => showWhatIf());
element("span").addEventListener("change", () => {
  state.span = Number(element("span").value);
  readHistory().catch(console.warn);
});
element("show-heat").addEventListener("change", () => {
  element("heat").hidden = !element("show-heat").checked;
  showFrame();
});
element("apply").addEventListener("click", () =>
  change(() => post(own("/false-positive-rate"), { false_positive_rate: sliderRate() }), "The threshold is set."));
element("undo").addEventListener("click", () => change(() => post(own("/undo"), {}), "The last change is undone."));
element("recalibrate").addEventListener("click", () =>
  change(() => post(own("/recalibrate"), { from: Number(element("normal").value) }), (changed) =>
    `Recalibrated, for a false-positive rate of ${short(changed.false_positive_rate)}.`));

startLearn();
startQuiet();
startRegions();
startDayNight();
startHistory();
setInterval(() => element("watch").hidden || drawChart(), 250);
setInterval(() => element("watch").hidden || showAge(), 1000);
showView();
