// The console without htmx: the viewer's zone, keys, live parts by server-sent events, strips, and the timeline's zoom.
"use strict";

// -- the viewer's zone of time: offered beside UTC ---------------------------------------------------

const zones = document.querySelector(".zone select");
const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zones && own && ![...zones.options].some((option) => option.value === own)) {
  zones.add(new Option(`${own} (yours)`, own));
}
if (zones) {
  zones.addEventListener("change", () => zones.form.requestSubmit());
}

// -- keys ----------------------------------------------------------------------------------------------

const places = { n: "/", t: "/timeline", s: "/schedules", r: "/runs", q: "/queues", l: "/log" };
let before = "";
document.addEventListener("keydown", (event) => {
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

// -- live parts: 0.3 s after a change in the log they read again ---------------------------------------------

const address = document.body.dataset.events;
let stream = null;
let timer = null;
let hasMore = false;

function announce() {
  hasMore = timer !== null; // what changes while the page waits may come too late for that reading
  timer ??= setTimeout(() => {
    timer = null;
    if (hasMore) {
      announce();
    }
    const live = document.getElementById("live");
    if (!live || !live.querySelector("details[open], :focus")) { // not while somebody types or reads there
      document.body.dispatchEvent(new Event("zsched:news"));
    }
  }, 300);
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
    stream.addEventListener("message", announce);
    stream.addEventListener("reset", announce);
    ["open", "message", "reset", "beat"].forEach((kind) => stream.addEventListener(kind, hear));
    hear();
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

if (address && document.querySelector("#live[hx-get]")) {
  document.addEventListener("visibilitychange", listen);
  window.addEventListener("pagehide", () => stream && stream.close());
  setInterval(watch, 1000);
  listen();
}

// -- a change that takes long: its button says so, and is not pressed twice ----------------------------------

document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (button && event.target.method === "post" && !event.defaultPrevented) {
    const words = button.textContent;
    window.addEventListener("pageshow", () => { // back on this page
      button.disabled = false;
      button.textContent = words;
    }, { once: true });
    setTimeout(() => {
      button.disabled = true;
      button.textContent = "Working …";
    });
  }
});

// -- a part that could not be read ------------------------------------------------------------------------

document.addEventListener("htmx:beforeSwap", (event) => {
  const trouble = document.getElementById("trouble");
  trouble.hidden = !event.detail.isError;
});
document.addEventListener("htmx:responseError", (event) => {
  const answer = event.detail.xhr;
  if (answer.status === 401) {
    location.reload(); // leads to the login, and back
    return;
  }
  tell(() => {
    const problem = JSON.parse(answer.responseText);
    const says = problem.detail.includes(problem.remedy ?? "") ? [] : [problem.remedy];
    return [problem.detail, ...says].join(" – ");
  });
});
document.addEventListener("htmx:sendError", () => tell(() => "This server does not answer. What is shown may be old."));

// -- a question that was opened while its part was read again: it stays -------------------------------------

document.addEventListener("htmx:beforeSwap", (event) => {
  const asked = event.detail.requestConfig.elt;
  if (asked.id === "live" && asked.querySelector("details[open], form :focus")) {
    event.detail.shouldSwap = false;
  }
});

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

// -- the timeline: a dragged span is shown alone --------------------------------------------------------------

document.addEventListener("pointerdown", (event) => {
  const density = event.target.closest(".density");
  if (!density) {
    return;
  }
  const box = density.getBoundingClientRect();
  const { from, to } = density.closest(".timeline").dataset;
  const share = (x) => Math.min(Math.max((x - box.left) / box.width, 0), 1);
  const begin = share(event.clientX);
  const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  mark.setAttribute("class", "selection");
  mark.setAttribute("height", "56");
  density.append(mark);
  const draw = (move) => {
    const [low, high] = [begin, share(move.clientX)].sort((one, other) => one - other);
    mark.setAttribute("x", `${low * 100}%`);
    mark.setAttribute("width", `${(high - low) * 100}%`);
    return [low, high];
  };
  const end = (up) => {
    document.removeEventListener("pointermove", draw);
    const [low, high] = draw(up);
    mark.remove();
    const at = (part) => new Date(Number(from) + (Number(to) - Number(from)) * part).toISOString();
    if ((high - low) * (Number(to) - Number(from)) >= 60000) {
      const url = new URL(location.href);
      url.searchParams.set("from", at(low));
      url.searchParams.set("to", at(high));
      location.assign(url);
    }
  };
  document.addEventListener("pointermove", draw);
  document.addEventListener("pointerup", end, { once: true });
});
