// The console without htmx: the viewer's zone, keys, live parts by server-sent events, strips, and the timeline's zoom.
"use strict";

// -- the viewer's zone of time: usual from the first page on, and kept when another is chosen -----------------

const zones = document.querySelector(".zone select");
const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zones && own && ![...zones.options].some((option) => option.value === own)) {
  zones.add(new Option(`${own} (yours)`, own));
}
if (zones && own && !document.cookie.includes("zsched_zone=")) { // the first page of this browser
  keepZone(own);
  if (own !== document.body.dataset.tz && !new URLSearchParams(location.search).has("tz")) {
    location.reload();
  }
}
if (zones) {
  zones.addEventListener("change", () => {
    keepZone(zones.value);
    zones.form.requestSubmit();
  });
}

function keepZone(name) {
  document.cookie = `zsched_zone=${name}; path=/; max-age=31536000; samesite=strict`;
}

// -- keys ----------------------------------------------------------------------------------------------

const places = {
  n: "/", t: "/timeline", f: "/forecast", s: "/schedules", r: "/runs", q: "/queues", c: "/calendars", l: "/log",
  d: "/doctor", a: "/accounts",
};
let before = "";
document.addEventListener("keydown", (event) => {
  const open = document.querySelector(".actions details[open]");
  if (event.key === "Escape" && open) { // also while somebody types there
    open.open = false;
    open.querySelector("summary").focus();
    return;
  }
  const isTyping = event.target.closest("input, select, textarea") !== null;
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  if (event.key === "/") {
    event.preventDefault();
    document.querySelector(".find input").focus();
  } else if (event.key === "?") {
    document.getElementById("keys").showModal();
  } else if (before === "g" && places[event.key] !== undefined) {
    const link = [...document.querySelectorAll("nav a")].find(
      (each) => new URL(each.href).pathname === places[event.key],
    );
    if (link) {
      link.click();
    }
  }
  before = event.key;
});
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens]");
  if (opener) {
    document.getElementById(opener.dataset.opens).showModal();
  }
});

// -- live parts: after a change in the log they read again, at most once in two seconds, and 200 kB a minute -----

const address = document.body.dataset.news;
const live = document.getElementById("live");
const pause = document.getElementById("pause");
const settleMs = 300; // the server shares what it reads for so long
const calmMs = 2000;
const bytesPerMinute = 150000; // a reading more may come in any minute
let stream = null;
let timer = null;
let notBefore = 0;
let isOld = false; // something changed while the page was held

function announce() {
  clearTimeout(timer);
  timer = setTimeout(refresh, Math.max(settleMs, notBefore - Date.now()));
}

function refresh() {
  timer = null;
  isOld = isHeld();
  pause.classList.toggle("old", isOld);
  if (!isOld) {
    notBefore = Date.now() + calmMs;
    document.body.dispatchEvent(new Event("zsched:news"));
  }
}

// A person reads, types or has marked something there, or has stopped the page.
function isHeld() {
  const marked = getSelection();
  return document.hidden || pause.getAttribute("aria-pressed") === "true" ||
    live.querySelector("details[open], :focus-visible") !== null ||
    (!marked.isCollapsed && marked.rangeCount > 0 && marked.getRangeAt(0).intersectsNode(live));
}

function release() {
  if (isOld && !isHeld()) {
    announce();
  }
}

function listen() {
  if (document.hidden) { // a browser has few connections to one server, for all its tabs
    if (stream) {
      stream.close();
    }
    stream = null;
  } else if (stream === null) {
    stream = new EventSource(address);
    stream.addEventListener("open", announce); // what changed before it was open
    stream.addEventListener("news", announce);
    ["open", "news", "beat"].forEach((kind) => stream.addEventListener(kind, hear));
    hear();
  }
}

document.addEventListener("htmx:beforeSwap", (event) => {
  const { target, xhr, requestConfig, isError } = event.detail;
  if (target !== live || isError) {
    return;
  }
  const time = new Date(xhr.getResponseHeader("Date") ?? Date.now());
  document.querySelector("#pulse time").textContent =
    time.toLocaleTimeString("en-GB", { timeZone: document.body.dataset.tz });
  if (requestConfig.elt === live) { // what lives; a form's answer is all new
    const bytes = Number(xhr.getResponseHeader("Content-Length")) || xhr.responseText.length;
    notBefore = Date.now() + Math.max(calmMs, bytes * 60000 / bytesPerMinute);
    event.detail.shouldSwap = false;
    if (isHeld()) { // since it was asked for
      isOld = true;
    } else {
      renew(event.detail.serverResponse);
    }
  }
});

// Make the live part like *html*; rows that a person has chosen stay so, wherever they are now.
function renew(html) {
  const chosen = boxes().filter((each) => each.checked).map((each) => each.value);
  morph(live, new DOMParser().parseFromString(html, "text/html").body);
  boxes().forEach((each) => { each.checked = chosen.includes(each.value); });
  countChosen();
}

// Make *old* like *now*, and touch only what differs: a mark, the focus and the place in the page stay.
function morph(old, now) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.data = now.data;
    return;
  }
  const [olds, news] = [old, now].map((each) => [...each.childNodes].filter((one) => textOf(one).trim() !== ""));
  const texts = olds.map(textOf);
  const coming = new Map();
  news.forEach((each) => coming.set(textOf(each), (coming.get(textOf(each)) ?? 0) + 1));
  let place = 0;
  for (const each of news) {
    const text = textOf(each);
    const same = texts.indexOf(text, place);
    coming.set(text, coming.get(text) - 1);
    if (same >= 0 && !texts.slice(place, same).some((one) => coming.get(one) > 0)) {
      olds.slice(place, same).forEach((gone) => gone.remove());
      place = same + 1;
    } else if (place < olds.length && olds[place].nodeName === each.nodeName && !(coming.get(texts[place]) > 0)) {
      setAttributes(olds[place], each);
      morph(olds[place], each);
      place += 1;
    } else {
      old.insertBefore(document.importNode(each, true), olds[place] ?? null);
    }
  }
  olds.slice(place).forEach((gone) => gone.remove());
}

function textOf(node) {
  return node.outerHTML ?? node.data;
}

function setAttributes(old, now) {
  if (old.nodeType === Node.ELEMENT_NODE) {
    const names = now.getAttributeNames();
    old.getAttributeNames().filter((name) => !names.includes(name)).forEach((name) => old.removeAttribute(name));
    names.forEach((name) => old.setAttribute(name, now.getAttribute(name)));
  }
}

// -- a server that hangs: its stream is silent, also without the beat that it has every few seconds -----------

let heard = Date.now();

function hear() {
  heard = Date.now();
  document.getElementById("silence").hidden = true;
}

function watch() {
  const { silentMs, tz } = document.body.dataset;
  const silence = document.getElementById("silence");
  if (stream && silence.hidden && Date.now() - heard > Number(silentMs)) {
    const time = new Date(heard).toLocaleTimeString("en-GB", { timeZone: tz });
    silence.textContent = `No news since ${time}. What is shown may be old.`;
    silence.hidden = false;
  }
}

if (address && live && live.hasAttribute("hx-get")) {
  document.querySelector("#pulse a").hidden = true;
  pause.hidden = false;
  pause.addEventListener("click", () => {
    const isPaused = pause.getAttribute("aria-pressed") !== "true";
    pause.setAttribute("aria-pressed", isPaused);
    pause.textContent = isPaused ? "Paused: go on" : "Pause";
    release();
  });
  ["selectionchange", "focusout", "toggle", "visibilitychange"].forEach((kind) =>
    document.addEventListener(kind, () => setTimeout(release), true));
  if (live.dataset.everyS) { // some of it changes without an entry in the log
    setInterval(() => timer ?? announce(), Number(live.dataset.everyS) * 1000);
  }
  document.addEventListener("visibilitychange", listen);
  window.addEventListener("pagehide", () => stream && stream.close());
  setInterval(watch, 1000);
  listen();
}

// -- a change: not sent without a session; if it takes long, its button says so, and is not pressed twice ------

document.addEventListener("submit", async (event) => {
  const { target: form, submitter: button } = event;
  if (form.method !== "post" || event.defaultPrevented || !button) {
    return;
  }
  event.preventDefault();
  const words = button.textContent;
  const settle = () => {
    button.disabled = false;
    button.textContent = words;
  };
  window.addEventListener("pageshow", settle, { once: true }); // back on this page
  button.disabled = true;
  button.textContent = "Working …";
  const answer = await fetch("/outcomes?id=-", { headers: { "HX-Request": "true" } }).catch(() => ({}));
  if (answer.status === 401) {
    settle();
    askForLogin();
  } else {
    form.submit();
  }
});

// -- the address of what was searched has only the filters that are set ------------------------------------

document.addEventListener("htmx:configRequest", (event) => {
  const { elt: form, formData: given } = event.detail;
  if (form.hasAttribute("hx-push-url")) {
    [...form.querySelectorAll("input, [data-any]")].filter((each) => each.value === "").forEach((each) => given.delete(each.name));
  }
});

// -- rows that are chosen: all of the page at once, and their number -----------------------------------------

function boxes() {
  return [...document.querySelectorAll(".box input")];
}

function countChosen() {
  const all = document.getElementById("choose-all");
  if (!all) {
    return;
  }
  const number = boxes().filter((each) => each.checked).length;
  all.hidden = boxes().length === 0;
  all.checked = number > 0 && number === boxes().length;
  all.indeterminate = number > 0 && !all.checked;
  const says = all.form.querySelector("[role=status]");
  says.dataset.usual ??= says.textContent;
  says.textContent = number > 0 ? `${number} chosen:` : says.dataset.usual;
  all.form.querySelectorAll("button").forEach((each) => { each.disabled = number === 0 && !("all" in all.form.dataset); });
}
document.addEventListener("change", ({ target }) => {
  if (target.id === "choose-all") {
    boxes().forEach((each) => { each.checked = target.checked; });
  }
  countChosen();
});
document.addEventListener("htmx:afterSettle", countChosen);
window.addEventListener("pageshow", countChosen); // also back on this page

// -- a part that could not be read ------------------------------------------------------------------------

document.addEventListener("htmx:beforeSwap", (event) => {
  const trouble = document.getElementById("trouble");
  trouble.hidden = !event.detail.isError;
});
document.addEventListener("htmx:responseError", (event) => {
  const answer = event.detail.xhr;
  if (answer.status === 401) {
    askForLogin();
    return;
  }
  tell(() => {
    const problem = JSON.parse(answer.responseText);
    const says = problem.detail.includes(problem.remedy ?? "") ? [] : [problem.remedy];
    return [problem.detail, ...says].join(" – ");
  });
});

// What was typed stays: the login is in another tab.
function askForLogin() {
  const trouble = document.getElementById("trouble");
  const link = Object.assign(document.createElement("a"), { href: "/login", target: "_blank", textContent: "Log in" });
  trouble.replaceChildren("Your session has ended. ", link, " in another tab, then continue here.");
  trouble.hidden = false;
  trouble.scrollIntoView({ block: "nearest" });
}
document.addEventListener("htmx:sendError", () => tell(() => "This server does not answer. What is shown may be old."));

// -- a value that was refused: its field says so, until one is accepted -------------------------------------

document.addEventListener("htmx:beforeSwap", (event) => {
  const form = event.detail.requestConfig.elt.closest("form");
  if (!form) {
    return;
  }
  form.querySelectorAll('[aria-describedby="trouble"]').forEach((field) => {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-describedby");
  });
  if (event.detail.xhr.status === 422) {
    const field = form.elements[refusedOption(event.detail.xhr)];
    if (field) {
      field.setAttribute("aria-invalid", "true");
      field.setAttribute("aria-describedby", "trouble");
    }
  }
});

function refusedOption(answer) {
  try {
    return JSON.parse(answer.responseText).option;
  } catch {
    return undefined;
  }
}

function tell(text) {
  const trouble = document.getElementById("trouble");
  try {
    trouble.textContent = text();
  } catch {
    trouble.textContent = "This part of the page could not be read.";
  }
  trouble.hidden = false;
}

// -- strips of last occurrences, read for all rows at once --------------------------------------------------

async function fillStrips() {
  const empty = [...document.querySelectorAll("[data-strip]")];
  if (empty.length === 0) {
    return;
  }
  const query = new URLSearchParams(empty.map((each) => ["id", each.dataset.strip]));
  empty.forEach((each) => each.removeAttribute("data-strip"));
  const answer = await fetch(`/outcomes?${query}`, { headers: { "HX-Request": "true" } });
  if (!answer.ok) {
    return;
  }
  const parts = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of parts.querySelectorAll("[data-of]")) {
    const place = document.getElementById(`strip-${part.dataset.of}`);
    if (place) {
      place.replaceChildren(...part.childNodes);
    }
  }
}
document.addEventListener("htmx:afterSettle", fillStrips);
fillStrips();

// -- the timeline: a span that is dragged, or chosen by keys, is shown alone ----------------------------------

const shortestMs = 60000;
const longestMs = 365 * 86400000;

function showTime(low, high, place = "") {
  const url = new URL(location.href);
  url.searchParams.set("from", new Date(low).toISOString());
  url.searchParams.set("to", new Date(high).toISOString());
  url.hash = place;
  location.assign(url);
}

function drawn(svg, kind, x, width, height) {
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  Object.entries({ class: kind, x, width, height }).forEach(([name, value]) => rect.setAttribute(name, value));
  svg.append(rect);
  return rect;
}

document.addEventListener("pointerdown", (event) => {
  const density = event.target.closest(".density");
  if (!density) {
    return;
  }
  const box = density.getBoundingClientRect();
  const [from, to] = boundsOf(density.closest(".timeline"));
  const share = (x) => Math.min(Math.max((x - box.left) / box.width, 0), 1);
  const begin = share(event.clientX);
  const mark = drawn(density, "selection", 0, 0, 56);
  const draw = (move) => {
    const [low, high] = [begin, share(move.clientX)].sort((one, other) => one - other);
    mark.setAttribute("x", `${low * 100}%`);
    mark.setAttribute("width", `${(high - low) * 100}%`);
    return [low, high];
  };
  const end = (up) => {
    document.removeEventListener("pointermove", draw);
    const [low, high] = draw(up).map((part) => from + (to - from) * part);
    mark.remove();
    if (high - low >= shortestMs) {
      showTime(low, high);
    }
  };
  document.addEventListener("pointermove", draw);
  document.addEventListener("pointerup", end, { once: true });
});

// The timeline is one place of the focus. Its cursor is on a bar, a cell or a mark; what it is on is read out.
let cursor = null;
let anchor = null; // where Shift was pressed first

function boundsOf(timeline) {
  return [Number(timeline.dataset.from), Number(timeline.dataset.to)];
}

// Place and width of a bar, a cell or a mark, in percent.
function spanOf(item) {
  const box = item.matches("a") ? item.querySelector("svg") : item;
  return [parseFloat(box.getAttribute("x")), item.matches("a") ? 0 : parseFloat(box.getAttribute("width"))];
}

function middleOf(item) {
  const [at, width] = spanOf(item);
  return at + width / 2;
}

// Begin and end in time; of bars and cells in whole steps, as places are rounded.
function timesOf(item) {
  const timeline = item.closest(".timeline");
  const [from, to] = boundsOf(timeline);
  const [at, width] = spanOf(item);
  const step = item.matches("a") ? 1 : Number(timeline.dataset.step);
  return [at, at + width].map((part) => Math.round((to - from) * part / 100 / step) * step + from);
}

function itemsOf(lane) {
  const found = [...lane.querySelectorAll(".density > svg, rect.cell, svg > a")];
  return found.sort((one, other) => middleOf(one) - middleOf(other));
}

function nearest(items, place) {
  const distance = (item) => Math.abs(middleOf(item) - place);
  return items.reduce((best, each) => distance(each) < distance(best) ? each : best);
}

function moveTo(item, isChoosing) {
  const timeline = item.closest(".timeline");
  anchor = isChoosing ? anchor ?? cursor ?? item : null;
  cursor = item;
  timeline.querySelectorAll(".cursor, .selection").forEach((each) => each.remove());
  const [at, width] = spanOf(item);
  const svg = item.closest(".lane").querySelector("svg");
  const mark = drawn(svg, "cursor", `${at}%`, width ? `${width}%` : 18, svg.matches(".density") ? 54 : 20);
  mark.setAttribute("transform", width ? "translate(0 1)" : "translate(-9 1)");
  const times = chosenTimes();
  if (anchor) {
    const [from, to] = boundsOf(timeline);
    const part = (ms) => `${(ms - from) * 100 / (to - from)}%`;
    drawn(timeline.querySelector(".density"), "selection", part(times[0]), part(times[1] - times[0] + from), 56);
  }
  const words = item.querySelector("title").textContent;
  const label = item.closest(".lane").querySelector(".label");
  const name = label.title || label.textContent;
  const says = item.matches(".density > svg") ? words : `${told(timesOf(item))}: ${words}`; // a bar has its time
  read(timeline, anchor ? `${told(times)}: Enter shows it` : `${name}, ${says}`);
}

function chosenTimes() {
  const all = [anchor ?? cursor, cursor].flatMap(timesOf);
  return [Math.min(...all), Math.max(...all)];
}

function told(times) {
  const options = { timeZone: document.body.dataset.tz, dateStyle: "medium", timeStyle: "medium" };
  return [...new Set(times)].map((ms) => new Date(ms).toLocaleString("en-GB", options)).join(" to ");
}

function read(timeline, text) {
  timeline.parentElement.querySelector(".reading").textContent = text;
}

function moveBy(timeline, key, isChoosing) {
  const lanes = [...timeline.querySelectorAll(".lane")].map(itemsOf).filter((items) => items.length > 0);
  if (lanes.length === 0) {
    return;
  }
  const row = lanes.findIndex((items) => items.includes(cursor));
  if (row < 0) { // the first move
    const now = timeline.querySelector(".now");
    moveTo(nearest(lanes[0], now ? parseFloat(now.getAttribute("x1")) : 50), false);
  } else if (key === "ArrowUp" || key === "ArrowDown") {
    const next = lanes[row + (key === "ArrowUp" ? -1 : 1)];
    moveTo(next ? nearest(next, middleOf(cursor)) : cursor, isChoosing);
  } else {
    const items = lanes[row];
    const at = items.indexOf(cursor);
    const next = { ArrowLeft: items[at - 1], ArrowRight: items[at + 1], Home: items[0], End: items.at(-1) }[key];
    moveTo(next ?? cursor, isChoosing);
  }
}

document.addEventListener("keydown", (event) => {
  const timeline = event.target;
  if (!timeline.matches(".timeline") || event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  const [from, to] = boundsOf(timeline);
  if (["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) {
    moveBy(timeline, event.key, event.shiftKey);
  } else if (["+", "=", "-", "−"].includes(event.key)) {
    const times = ["+", "="].includes(event.key) ? 0.5 : 2;
    const span = Math.min(Math.max((to - from) * times, shortestMs), longestMs);
    const middle = timeline.contains(cursor) ? from + (to - from) * middleOf(cursor) / 100 : (from + to) / 2;
    showTime(middle - span / 2, middle + span / 2, "chart");
  } else if (event.key === "Enter" && timeline.contains(cursor)) {
    const [low, high] = chosenTimes();
    if (!anchor && cursor.matches("a")) {
      location.assign(cursor.href.baseVal);
    } else if (high - low >= shortestMs) {
      showTime(low, high, "chart");
    }
  } else {
    return;
  }
  event.preventDefault();
});

const keysText = "Arrow keys move, Enter opens, + and − zoom, Shift and an arrow key choose a time.";

function offerKeys() {
  const timeline = document.querySelector(".timeline:not([tabindex])");
  if (timeline) {
    timeline.tabIndex = 0;
    timeline.setAttribute("role", "application");
    timeline.setAttribute("aria-label", "Timeline");
    timeline.addEventListener("focus", () => read(timeline, keysText));
    if (location.hash === "#chart") { // a key has shown this time
      timeline.focus({ preventScroll: true });
    }
  }
}
document.addEventListener("htmx:afterSettle", offerKeys);
offerKeys();
