// Keeps a page up to date with server-sent events, and runs its clocks. Without JavaScript the page works, and a reload updates it.
"use strict";

const live = document.getElementById("live");
const pulse = document.getElementById("pulse");

// say formats a duration as text.go does.
function say(ms) {
  const s = Math.floor(ms / 1000);
  if (ms < 1000) return `${Math.floor(ms)} ms`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

let begun = new WeakMap(); // by clock: its start value and start time
function tick() {
  for (const clock of live.querySelectorAll(".clock")) {
    const value = clock.dataset.up ?? clock.dataset.down;
    let from = begun.get(clock);
    if (!from || from.value !== value) begun.set(clock, from = {value, at: performance.now()});
    const passed = performance.now() - from.at;
    const text = say(clock.dataset.up ? +value + passed : Math.max(value - passed, 0));
    if (clock.textContent !== text) clock.textContent = text;
  }
}

// patch makes old equal to fresh and touches only the differences, so that focus, selection and pending clicks survive.
function patch(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh.cloneNode(true));
    return;
  }
  for (const {name} of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const {name, value} of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const named = new Map();
  for (const child of old.children) if (child.dataset.id) named.set(child.dataset.id, child);
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const id = child.dataset?.id;
    const same = id ? named.get(id) : at && !at.dataset?.id ? at : null;
    if (id) named.delete(id); // another child may have the same one
    if (!same) {
      old.insertBefore(child.cloneNode(true), at);
      continue;
    }
    if (same === at) at = at.nextSibling;
    else if (old.moveBefore) old.moveBefore(same, at);
    else old.insertBefore(same, at);
    patch(same, child);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function state(on, text) {
  pulse.hidden = false;
  pulse.classList.toggle("on", on);
  if (pulse.textContent !== text) pulse.textContent = text;
}

let source, late;
function open() {
  source = new EventSource(live.dataset.live);
  source.addEventListener("state", (event) => {
    clearTimeout(late);
    late = undefined;
    const fresh = live.cloneNode(false);
    fresh.append(...new DOMParser().parseFromString(event.data, "text/html").body.childNodes);
    const focused = document.activeElement;
    patch(live, fresh);
    begun = new WeakMap(); // values are of now, also those that have not changed
    if (focused !== document.activeElement && focused.isConnected) focused.focus({preventScroll: true}); // moving its row has removed the focus
    tick();
    state(true, "live");
  });
  source.addEventListener("error", () => { // a stream ends every minute; the browser opens it again
    late ??= setTimeout(() => state(false, "not live"), 5000);
    if (source.readyState === EventSource.CLOSED) setTimeout(() => document.hidden || reopen(), 5000);
  });
}

function reopen() {
  source?.close();
  open();
}

if (live?.dataset.live && pulse) {
  tick();
  setInterval(tick, 250);
  open();
  document.addEventListener("visibilitychange", () => document.hidden ? source.close() : reopen()); // a hidden page reads nothing
}
