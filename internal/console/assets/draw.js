// draw.js makes elements from the <template> elements of the page and from JSON. A text of JSON
// becomes a text node or the value of an attribute, and never markup.
import { ago, exact } from "./words.js";

const at = (data, path) => path === "." ? data : path.split(".").reduce((o, key) => o?.[key], data);

// take removes an attribute of our own from the elements below root, and calls set with each element
// and the value at the attribute's path.
function take(root, name, data, set) {
  for (const e of root.querySelectorAll(`[data-${name}]`)) {
    const path = e.dataset[name];
    e.removeAttribute("data-" + name);
    set(e, at(data, path));
  }
}

// addresses are the attributes whose value is an address. A part of an address is encoded.
const addresses = /^(href|hx-(get|put|post|patch|delete))$/;

function setAttributes(e, data) {
  const pairs = e.dataset.attr;
  e.removeAttribute("data-attr");
  for (const pair of pairs.split(";")) {
    const [, name, pattern] = pair.match(/^([^=]+)=(.*)$/s);
    const encode = addresses.test(name) && !/^\{[\w.]+\}$/.test(pattern) ? encodeURIComponent : String;
    const value = pattern.replace(/\{([\w.]+)\}/g, (_, path) => encode(at(data, path) ?? ""));
    if (value) e.setAttribute(name, value);
  }
}

export function setTime(e, time) {
  e.dateTime = time;
  e.title = exact(time);
  e.textContent = ago(time);
}

// fill sets the texts and attributes of the elements below root. The elements name their values in
// data-each, data-if, data-node (nodes), data-time, data-text, and data-attr ("name={path};…").
function fill(root, data) {
  for (const e of root.querySelectorAll("[data-each]")) {
    const items = at(data, e.dataset.each) ?? [];
    e.removeAttribute("data-each");
    e.replaceWith(...items.map(item => {
      const box = document.createElement("div");
      box.append(e.cloneNode(true));
      fill(box, item);
      return box.firstChild;
    }));
  }
  take(root, "if", data, (e, value) => { if (!value) e.remove(); });
  take(root, "node", data, (e, nodes) => e.replaceChildren(...nodes ?? []));
  take(root, "time", data, (e, time) => { if (time) setTime(e, time); else e.remove(); });
  take(root, "text", data, (e, text) => { e.textContent = text ?? ""; });
  for (const e of root.querySelectorAll("[data-attr]")) setAttributes(e, data);
  return root;
}

export const draw = (name, data) => fill(document.getElementById("t-" + name).content.cloneNode(true), data);

// markup returns the result of draw as text, because htmx needs text. The browser escapes the values
// that draw has set.
export function markup(name, data) {
  const box = document.createElement("div");
  box.append(draw(name, data));
  return box.innerHTML;
}

export function toast(text) {
  const box = document.getElementById("toast");
  box.textContent = text;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { box.textContent = ""; }, 6000);
}
