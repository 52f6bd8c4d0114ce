// The regions of the shown camera: their outlines over its pictures, and the drawing of new ones over the live picture.
// Vertices are fractions of the picture's width and height, as in the service. `page.js` defines what is used here, and
// starts this.
"use strict";

// The distance by which an arrow key moves a vertex, and that with the shift key.
const step = { fine: 0.002, coarse: 0.02 };
// `inUse` is the service's answer; `edit` is the edited state: its `list`, the vertices of the polygon that is `open`,
// and the region that has handles.
const regions = { inUse: null, edit: null };

const share = (value) => Math.round(1e4 * Math.min(1, Math.max(0, value))) / 1e4;
const points = (vertices) => vertices.map((vertex) => vertex.join(",")).join(" ");

function outline(name, kind, vertices) {
  return svg(name, { class: kind, points: points(vertices) });
}

// The outlines for a picture with these regions; an alarm contains the digest of its regions.
function outlinesOf(digest) {
  if (!digest || digest !== regions.inUse?.digest) return null;
  const overlay = svg("svg", { class: "outlines", viewBox: "0 0 1 1", preserveAspectRatio: "none" });
  overlay.append(...regions.inUse.regions.map(({ kind, vertices }) => outline("polygon", kind, vertices)));
  return overlay;
}

function drawOutlines() {
  const { inUse, edit } = regions;
  const shapes = (edit?.list ?? inUse?.regions ?? []).map(({ kind, vertices }) => outline("polygon", kind, vertices));
  if (edit?.open) shapes.push(outline("polyline", edit.kind, edit.open));
  element("outlines").replaceChildren(...shapes);
}

// The vertices that can be moved: those of the open polygon, or of the selected region.
const movable = () => regions.edit?.open ?? regions.edit?.list[regions.edit.chosen]?.vertices ?? [];

function placeHandle(handle, [x, y]) {
  handle.style.left = `${100 * x}%`;
  handle.style.top = `${100 * y}%`;
}

function handleOf(vertices, index) {
  const handle = document.createElement("button");
  handle.type = "button";
  handle.className = "handle";
  const isEnd = vertices === regions.edit.open && index === 0 && vertices.length > 2;
  handle.ariaLabel = isEnd ? "Vertex 1: close the polygon" : `Vertex ${index + 1} of ${vertices.length}`;
  placeHandle(handle, vertices[index]);
  const moveTo = (x, y) => {
    vertices[index] = [share(x), share(y)];
    placeHandle(handle, vertices[index]);
    drawOutlines();
  };
  let moved = false;
  handle.addEventListener("pointerdown", (event) => {
    moved = false;
    handle.setPointerCapture(event.pointerId);
  });
  handle.addEventListener("pointermove", (event) => {
    if (!handle.hasPointerCapture(event.pointerId)) return;
    // Small movements of the hand are ignored.
    const [x, y] = placeOf(event);
    const box = element("outlines").getBoundingClientRect();
    const [dx, dy] = [(x - vertices[index][0]) * box.width, (y - vertices[index][1]) * box.height];
    moved ||= Math.hypot(dx, dy) > 4;
    if (moved) moveTo(x, y);
  });
  handle.addEventListener("click", () => !moved && isEnd && closePolygon());
  handle.addEventListener("keydown", (event) => {
    const by = event.shiftKey ? step.coarse : step.fine;
    const ways = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, -by], ArrowDown: [0, by] };
    const way = ways[event.key];
    if (way) moveTo(vertices[index][0] + way[0], vertices[index][1] + way[1]);
    else if (event.key === "Delete" || event.key === "Backspace") removeVertex(vertices, index);
    else return;
    event.preventDefault();
  });
  return handle;
}

// Removes a vertex; a region with fewer than three is removed.
function removeVertex(vertices, index) {
  const { edit } = regions;
  vertices.splice(index, 1);
  if (vertices === edit.open) edit.open = vertices.length ? vertices : null;
  else if (vertices.length < 3) removeRegion(edit.chosen);
  drawEditor();
  element("handles").children[Math.min(index, vertices.length - 1)]?.focus();
}

function removeRegion(index) {
  const { edit } = regions;
  edit.list.splice(index, 1);
  edit.chosen = -1;
}

function closePolygon() {
  const { edit } = regions;
  if (!edit.open || edit.open.length < 3) return;
  addRegion(edit.open);
}

function addRegion(vertices) {
  const { edit } = regions;
  edit.list.push({ kind: edit.kind, name: "", vertices });
  Object.assign(edit, { open: null, chosen: edit.list.length - 1 });
  drawEditor();
}

function regionItem(region, index) {
  const item = document.createElement("li");
  item.className = "row";
  const kind = document.createElement("select");
  kind.ariaLabel = `Kind of region ${index + 1}`;
  for (const name of ["include", "ignore"]) kind.add(new Option(name, name, false, name === region.kind));
  kind.addEventListener("change", () => {
    region.kind = kind.value;
    drawOutlines();
  });
  const name = document.createElement("input");
  Object.assign(name, { type: "text", value: region.name ?? "", maxLength: 64, placeholder: "name", ariaLabel: `Name of region ${index + 1}` });
  name.addEventListener("input", () => (region.name = name.value));
  const button = (text, act) => {
    const made = document.createElement("button");
    Object.assign(made, { type: "button", textContent: text, ariaLabel: `${text} region ${index + 1}` });
    made.addEventListener("click", () => {
      const place = [...item.children].indexOf(made);
      act();
      drawEditor();
      // The list was made again: the focus stays on the same button, or on that of the next region.
      const items = element("regions-list").children;
      (items[Math.min(index, items.length - 1)]?.children[place] ?? element("regions-rectangle")).focus();
    });
    return made;
  };
  const { edit } = regions;
  const choose = button("Move", () => Object.assign(edit, { open: null, chosen: edit.chosen === index ? -1 : index }));
  choose.ariaPressed = String(edit.chosen === index);
  item.append(kind, name, choose, button("Delete", () => removeRegion(index)));
  return item;
}

function drawEditor() {
  const { edit } = regions;
  element("regions-editor").hidden = !edit;
  element("regions-edit").hidden = Boolean(edit) || !state.summary?.may_change;
  element("live-picture").classList.toggle("drawing", Boolean(edit));
  element("regions-list").replaceChildren(...(edit?.list.map(regionItem) ?? []));
  element("handles").replaceChildren(...movable().map((_, index) => handleOf(movable(), index)));
  drawOutlines();
}

const placeOf = (event) => {
  const box = element("outlines").getBoundingClientRect();
  return [share((event.clientX - box.left) / box.width), share((event.clientY - box.top) / box.height)];
};

function useRegions(inUse) {
  regions.inUse = inUse;
  element("regions-warning").textContent = inUse?.warning ?? "";
  // A change by another user does not disturb drawing.
  if (!regions.edit) drawEditor();
}

async function showRegions() {
  useRegions(await get(own("/regions")));
}

function resetRegions() {
  regions.edit = null;
  element("regions-problem").textContent = "";
  useRegions(null);
}

async function postRegions(action, body) {
  try {
    const inUse = await post(own(`/regions${action}`), body);
    regions.edit = null;
    element("regions-problem").textContent = "";
    useRegions(inUse);
  } catch (error) {
    element("regions-problem").textContent = error.message;
  }
}

function saveRegions() {
  const { edit } = regions;
  closePolygon();
  if (edit.open) {
    element("regions-problem").textContent = "The polygon that is being drawn has fewer than three vertices: add some, or press Escape.";
    return;
  }
  const list = edit.list.map(({ kind, name, vertices }) => (name ? { kind, name, vertices } : { kind, vertices }));
  postRegions("", { regions: list });
}

function startRegions() {
  element("regions-edit").addEventListener("click", () => {
    const list = structuredClone(regions.inUse?.regions ?? []);
    regions.edit = { list, open: null, chosen: -1, kind: element("regions-kind").value };
    drawEditor();
  });
  element("regions-kind").addEventListener("change", () => {
    regions.edit.kind = element("regions-kind").value;
    drawOutlines();
  });
  element("outlines").addEventListener("click", (event) => {
    const { edit } = regions;
    if (!edit) return;
    edit.open = [...(edit.open ?? []), placeOf(event)];
    drawEditor();
  });
  // The second click of a double click is on the handle that the first one created: it does not add a vertex.
  element("live-picture").addEventListener("dblclick", () => regions.edit && closePolygon());
  document.addEventListener("keydown", (event) => {
    const { edit } = regions;
    if (!edit?.open) return;
    if (event.key === "Escape") {
      edit.open = null;
      drawEditor();
    } else if (event.key === "Enter" && !event.target.closest("button:not(.handle), input, select")) closePolygon();
  });
  // For users without a pointer: the arrow keys move its vertices.
  element("regions-rectangle").addEventListener("click", () => {
    addRegion([[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], [0.25, 0.75]]);
    element("handles").firstElementChild.focus();
  });
  element("regions-save").addEventListener("click", saveRegions);
  element("regions-cancel").addEventListener("click", () => {
    regions.edit = null;
    element("regions-problem").textContent = "";
    drawEditor();
  });
  element("regions-reset").addEventListener("click", () => postRegions("/reset", {}));
}
