// Day and night at the shown camera: the condition, the model in use, and the rule that distinguishes the two.
// `page.js` defines what is used here, and starts this.
"use strict";

// `told` is the service's answer; `edited` is true from the first change of a field until it is saved or discarded.
const dayNight = { told: null, edited: false };

const dayNightBy = { schedule: "by the hours", brightness: "by the brightness of the picture", colour: "by the colour of the picture",
  day: "as set by hand", night: "as set by hand" };

// The fields of each rule.
const dayNightFields = { schedule: ["hours"], brightness: ["below", "above", "hold"], colour: ["below", "above", "hold"] };

// The text of the chip; empty if day and night are not distinguished.
function dayNightText(now) {
  if (!now) return "";
  return now.condition === now.model_for ? now.condition : `${now.condition}, model of the ${now.model_for}`;
}

function showDayNightChip(now) {
  chip("day-night-chip", dayNightText(now), now && now.condition !== now.model_for ? "warn" : "");
}

function dayNightSentence({ now, light }) {
  const parts = [now ? `It is ${now.condition}, ${dayNightBy[now.by] ?? now.by}. The model of the ${now.model_for} is in use.`
    : "Day and night are not distinguished: one model is for both."];
  if (light) parts.push(`The picture has a brightness of ${light.brightness.toFixed(1)} and a colour of ${light.colour.toFixed(1)}, of 255.`);
  return parts.join(" ");
}

function showDayNightFields() {
  const shown = dayNightFields[element("day-night-by").value] ?? [];
  for (const label of document.querySelectorAll("[data-day-night]")) label.hidden = !shown.includes(label.dataset.dayNight);
  // Without a rule there is nothing to save.
  element("day-night-save").disabled = !element("day-night-by").value;
}

function fillDayNight(rule) {
  element("day-night-by").value = rule?.by ?? "";
  element("day-night-hours").value = rule?.by === "schedule" ? rule.night : "22:00-06:00";
  const usual = element("day-night-by").value === "colour" ? [2, 5] : [30, 50];
  element("day-night-below").value = rule?.night_below ?? usual[0];
  element("day-night-above").value = rule?.day_above ?? usual[1];
  element("day-night-hold").value = rule?.hold ?? 30;
  showDayNightFields();
}

function showToldDayNight(told) {
  dayNight.told = told;
  showDayNightChip(told.now);
  element("day-night-now").textContent = dayNightSentence(told);
  element("day-night-missing").textContent = told.now?.night_model_missing ?? "";
  element("day-night-form").hidden = !state.summary?.may_change;
  element("day-night-reset").hidden = told.from !== "kept";
  if (!dayNight.edited) fillDayNight(told.rule);
}

async function showDayNight() {
  showToldDayNight(await get(own("/day-night")));
  learnOfCondition(dayNight.told.now);
}

function dayNightRule() {
  const by = element("day-night-by").value;
  if (by === "schedule") return { by, night: element("day-night-hours").value };
  if (by === "day" || by === "night") return { by };
  const value = (name) => Number(element(`day-night-${name}`).value);
  return { by, night_below: value("below"), day_above: value("above"), hold: value("hold") };
}

async function saveDayNight(path, rule) {
  try {
    const told = await post(own(path), rule);
    dayNight.edited = false;
    showToldDayNight(told);
    learnOfCondition(told.now);
    element("day-night-problem").textContent = "";
  } catch (error) {
    element("day-night-problem").textContent = error.message;
  }
}

function resetDayNight() {
  Object.assign(dayNight, { told: null, edited: false });
  showDayNightChip(null);
  for (const id of ["day-night-now", "day-night-missing", "day-night-problem"]) element(id).textContent = "";
}

function startDayNight() {
  element("day-night-form").addEventListener("input", () => (dayNight.edited = true));
  element("day-night-by").addEventListener("change", () => {
    const by = element("day-night-by").value;
    // The values of the service if they are for this rule; otherwise the defaults.
    fillDayNight(dayNight.told?.rule?.by === by ? dayNight.told.rule : { by });
    dayNight.edited = true;
  });
  element("day-night-save").addEventListener("click", () => saveDayNight("/day-night", dayNightRule()));
  element("day-night-reset").addEventListener("click", () => saveDayNight("/day-night/reset", {}));
  // The light is measured repeatedly.
  setInterval(() => {
    const looks = dayNight.told?.light && !document.hidden && !element("watch").hidden;
    if (looks && state.camera) showDayNight().catch(console.warn);
  }, 3000);
}
