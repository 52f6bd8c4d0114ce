// Learning at the shown camera: collecting and reviewing frames, training, two models side by side. The service
// determines which actions are permitted; here are only their buttons. `page.js` defines what is used here, and starts
// this.
"use strict";

const learnPage = 60;
const learn = { status: null, condition: "day", chosen: false, points: [], from: 0, before: [], frames: new Map(), tick: 0 };

const learnPhases = {
  idle: "No frames yet. Let the camera see what is normal, and collect.",
  collecting: "Collecting.",
  collected: "Frames are collected. Look through them, throw out what is not normal, then train.",
  training: "Training, at the lowest priority.",
  trained: "There is a new model. Watch it beside the model in use, or use it.",
  shadowing: "The new model scores beside the model in use, and raises no alarm.",
  swapped: "The new model is in use.",
};

// The texts that differ if there is no model in use for a comparison.
const learnPhasesAlone = {
  trained: "There is a new model. Try it on live frames, or use it.",
  shadowing: "The new model scores live frames, and raises no alarm.",
};

const learnBack = { learned: "Return to the previous model", settings: "Return to the model of the settings",
  nothing: "Remove the model" };

// The page contains the texts of the buttons; this has their requests.
const learnActions = {
  collect: () => ({
    // An empty field is the service's default.
    ...(element("learn-minutes").value ? { minutes: Number(element("learn-minutes").value) } : {}),
    ...(element("learn-distance").value ? { min_distance: Number(element("learn-distance").value) } : {}),
  }),
  stop: () => ({}),
  train: () => ({ minutes: Number(element("learn-budget").value) }),
  cancel: () => ({}),
  shadow: () => ({}),
  "end-shadow": () => ({}),
  swap: () => ({ anyway: element("learn-anyway").checked }),
  "roll-back": () => ({}),
  delete: () => ({}),
};

// An address of learning: there is one for the day, and if day and night are distinguished, one for the night.
function ownLearn(path) {
  const address = own(`/learn${path}`);
  return learn.condition === "day" ? address : `${address}${address.includes("?") ? "&" : "?"}condition=${learn.condition}`;
}

// Shows learning for the current condition, unless the user has selected the other.
function learnOfCondition(now) {
  if (!now) learn.chosen = false;
  const condition = !now ? "day" : learn.chosen ? learn.condition : now.condition;
  if (condition !== learn.condition) learnOf(condition);
  element("learn-of").hidden = !now;
  element("learn-condition").value = condition;
}

function learnOf(condition) {
  const chosen = learn.chosen;
  learn.condition = condition;
  resetLearn();
  Object.assign(learn, { condition, chosen });
  addressLearn();
  element("learn-of").hidden = false;
  showLearn().catch(console.warn);
}

function size(bytes) {
  const [unit, name] = bytes < 2 ** 20 ? [2 ** 10, "KiB"] : bytes < 2 ** 30 ? [2 ** 20, "MiB"] : [2 ** 30, "GiB"];
  const value = bytes / unit;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${name}`;
}

function learnSentence(s) {
  const alone = hasNoModel();
  const parts = [(alone ? learnPhasesAlone[s.phase] : null) ?? learnPhases[s.phase] ?? s.phase];
  if (s.phase !== "idle" && s.kept + s.thrown_out > 0) {
    parts.push(`${s.kept} frames kept of ${s.seen} seen, ${size(s.bytes)} of ${size(s.room)}.`);
    if (s.thrown_out) parts.push(`${s.thrown_out} thrown out.`);
    if (s.missed) parts.push(`${s.missed} came too fast to be looked at.`);
  } else if (s.phase === "collecting") parts.push(`${s.kept} frames kept of ${s.seen} seen.`);
  if (s.waits) parts.push(`It waits for the ${learn.condition}.`);
  if (s.collecting?.left) parts.push(`${span(s.collecting.left)} left.`);
  if (s.training) {
    const { manner, gone, progress } = s.training;
    if (manner !== "begun") parts.push(`The service was restarted: training was ${manner}.`);
    parts.push(`${span(gone)} of about ${span(s.seconds)}.`);
    if (progress) parts.push(`${progress.doing}: ${progress.done} of ${progress.total} ${progress.unit}.`);
  }
  if (s.shadow) {
    const { frames, before, after, differ, failures, failure } = s.shadow;
    if (alone) parts.push(`Of ${frames} frames it calls ${after} anomalies.`);
    else parts.push(`Of ${frames} frames the model in use calls ${before} anomalies, the new one ${after}; on ${differ} they differ.`);
    if (failures) parts.push(`The new one failed on ${failures}: ${failure}.`);
  }
  if (s.in_use && s.phase !== "swapped") parts.push("A model learned here is in use.");
  return parts.join(" ");
}

async function showLearn() {
  const first = learn.status === null;
  const asked = learn.condition;
  const s = await get(ownLearn(""));
  // The other condition was selected meanwhile.
  if (asked !== learn.condition) return;
  const changed = first || s.phase !== learn.status.phase || s.kept !== learn.status.kept
    || s.thrown_out !== learn.status.thrown_out;
  learn.status = s;
  element("learn").hidden = false;
  element("learn-phase").textContent = learnSentence(s);
  element("learn-note").textContent = s.note ?? "";
  const mayChange = state.summary?.may_change;
  for (const part of document.querySelectorAll("[data-learn]")) {
    part.hidden = !mayChange || !part.dataset.learn.split(" ").some((action) => s.may.includes(action));
  }
  const alone = hasNoModel();
  // There is no model with which the new one could disagree.
  element("learn-disagrees").hidden ||= alone;
  element("learn-shadow").textContent = alone ? "Try it on live frames" : "Score beside the model in use";
  element("learn-back").textContent = learnBack[s.back_to] ?? learnBack.learned;
  element("time").hidden = alone && !s.shadow;
  const canTrain = s.may.includes("train");
  element("learn-elsewhere").hidden = !(s.may.includes("take-model") && mayChange) && !s.kept;
  element("learn-elsewhere").open ||= canTrain && !s.nae_train;
  element("learn-here").hidden = s.nae_train || !canTrain;
  element("learn-train").disabled = !s.nae_train;
  element("learn-command").textContent = s.command;
  element("learn-tar").hidden = s.kept === 0;
  element("learn-report").hidden = !s.report;
  const progress = s.training?.progress;
  element("learn-progress").hidden = !s.training;
  // Without a count, progress is shown as elapsed time.
  const done = progress ? progress.done / progress.total : s.training ? s.training.gone / s.seconds : 0;
  element("learn-progress").value = Math.min(1, done);
  element("learn-lines").hidden = !s.training?.lines.length;
  element("learn-lines").textContent = s.training?.lines.join("\n") ?? "";
  element("chart-note").hidden = !s.shadow;
  if (s.shadow) {
    const [threshold, shadow] = [state.summary?.threshold, s.shadow.threshold];
    if (alone) element("chart-note").textContent = "Rings: energies of the new model, with its threshold.";
    else element("chart-note").textContent = threshold && shadow
      ? "Dots: the model in use. Rings: the new one. Each energy is shown as a multiple of its own model's threshold."
      : "A model without a threshold cannot be compared on this chart: the new one's energies are not shown.";
    const slices = await get(ownLearn(`/energies?seconds=${state.span}`));
    const now = performance.now() / 1000;
    learn.points = slices.map(({ ago, energy }) => ({ at: now - ago, energy }));
  } else learn.points = [];
  if (changed) await showFrames();
}

function frameItem(number) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  const image = new Image();
  image.alt = `Frame ${number}`;
  button.append(image);
  item.append(button);
  draw(image, ownLearn(`/frames/${number}/thumbnail`)).catch(console.warn);
  button.addEventListener("click", () => {
    const action = button.classList.contains("out") ? "bring-back" : "throw-out";
    if (learn.status.may.includes(action)) learnDo(action, { frames: [number] });
  });
  return { item, button, image };
}

// Shows a page of frames; those that are already shown stay unchanged.
async function showFrames() {
  const frames = await get(ownLearn(`/frames?from=${learn.from}&count=${learnPage}`));
  const shown = new Map();
  for (const { number, thrown_out } of frames) {
    const frame = learn.frames.get(number) ?? frameItem(number);
    frame.button.className = thrown_out ? "out" : "";
    frame.button.title = thrown_out ? "thrown out: bring back" : "throw out";
    frame.button.ariaPressed = String(thrown_out);
    frame.button.disabled = !state.summary?.may_change || !learn.status.may.includes("throw-out");
    shown.set(number, frame);
  }
  for (const [number, { image }] of learn.frames) if (!shown.has(number)) URL.revokeObjectURL(image.src);
  learn.frames = shown;
  element("learn-frames").replaceChildren(...[...shown.values()].map(({ item }) => item));
  const all = learn.status.kept + learn.status.thrown_out;
  element("learn-pages").hidden = all <= learnPage;
  element("learn-earlier").disabled = learn.before.length === 0;
  element("learn-later").disabled = frames.length < learnPage;
  element("learn-range").textContent = frames.length ? `${frames[0].number} to ${frames.at(-1).number}` : "";
}

async function learnDo(action, body) {
  try {
    await post(ownLearn(`/${action}`), body);
    element("learn-problem").textContent = "";
  } catch (error) {
    element("learn-problem").textContent = error.message;
  }
  await showLearn().catch(console.warn);
}

// With a token, neither a link nor a new tab can send it: in that case, the file is fetched and saved. `problem` is the id of
// the element that shows why it could not be.
async function save(event, path, name, problem) {
  if (!token.value) return;
  event.preventDefault();
  let response;
  try {
    response = await ask(path);
    if (!response.ok) throw new Error((await response.json()).error);
    element(problem).textContent = "";
  } catch (error) {
    element(problem).textContent = `${name} was not saved: ${error.message}`;
    return;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

function resetLearn() {
  for (const { image } of learn.frames.values()) URL.revokeObjectURL(image.src);
  Object.assign(learn, { status: null, condition: "day", chosen: false, points: [], from: 0, before: [], frames: new Map() });
  element("learn").hidden = true;
  element("chart-note").hidden = true;
  element("learn-of").hidden = true;
  element("learn-problem").textContent = "";
  element("learn-frames").replaceChildren();
  if (state.camera) addressLearn();
}

function addressLearn() {
  element("learn-tar").href = ownLearn("/frames.tar");
  element("learn-report").href = ownLearn("/report");
}

function startLearn() {
  for (const button of document.querySelectorAll("[data-action]")) {
    const { action, sure } = button.dataset;
    button.addEventListener("click", () => {
      if (!sure || window.confirm(sure)) learnDo(action, learnActions[action]());
    });
  }
  element("learn-condition").addEventListener("change", () => {
    learn.chosen = true;
    learnOf(element("learn-condition").value);
  });
  element("learn-earlier").addEventListener("click", () => {
    learn.from = learn.before.pop() ?? 0;
    showFrames().catch(console.warn);
  });
  element("learn-later").addEventListener("click", () => {
    learn.before.push(learn.from);
    learn.from = Math.max(...learn.frames.keys()) + 1;
    showFrames().catch(console.warn);
  });
  element("learn-tar").addEventListener("click", (event) =>
    save(event, ownLearn("/frames.tar"), "frames.tar", "learn-problem").catch(console.warn));
  element("learn-report").addEventListener("click", (event) =>
    save(event, ownLearn("/report"), "report.html", "learn-problem").catch(console.warn));
  element("learn-file").addEventListener("change", async () => {
    const [file] = element("learn-file").files;
    if (!file) return;
    try {
      const headers = { "content-type": "application/octet-stream" };
      const response = await ask(ownLearn("/take-model"), { method: "POST", headers, body: file });
      element("learn-problem").textContent = response.ok ? "" : (await response.json()).error;
    } catch (error) {
      element("learn-problem").textContent = error.message;
    }
    element("learn-file").value = "";
    showLearn().catch(console.warn);
  });
  // Running activities are updated every second, possible changes by other users every five.
  setInterval(() => {
    learn.tick += 1;
    const busy = ["collecting", "training", "shadowing"].includes(learn.status?.phase);
    if (learn.status && !document.hidden && (busy || learn.tick % 5 === 0)) showLearn().catch(console.warn);
  }, 1000);
}
