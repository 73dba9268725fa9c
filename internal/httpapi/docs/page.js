// The page shows /openapi.json, and sends calls to the service that serves the page.
import { form, tokens } from "./call.js";
import { base, el, find } from "./dom.js";
import { resolve, rules, shape } from "./schema.js";

function body(doc, title, content) {
  if (!content) return null;
  const [type, media] = Object.entries(content)[0];
  return el("div", {}, el("p", { className: "soft" }, title + " ", el("code", {}, type)),
    el("pre", { tabIndex: 0 }, JSON.stringify(shape(doc, media.schema), null, 2)));
}
const badge = method => el("code", { className: "method " + method }, method.toUpperCase());

function parameters(op) {
  if (!op.parameters) return null;
  return el("dl", { className: "parameters" }, ...op.parameters.map(p => el("div", {},
    el("dt", {}, el("code", {}, p.name), " ", el("span", { className: "soft" }, p.in + (p.required ? ", required" : ""))),
    el("dd", {}, (p.description || "") + " ", el("span", { className: "soft" }, rules(p.schema))))));
}

function operation(doc, { path, method, op }) {
  const inner = el("div", { className: "inner" });
  if (op.description) inner.append(el("p", {}, op.description));
  inner.append(...[parameters(op), body(doc, "Body", op.requestBody && op.requestBody.content)].filter(Boolean));
  const failures = [];
  let stream = false, lines = false;
  for (const [status, response] of Object.entries(op.responses)) {
    if (status >= 400 || status === "default") { failures.push(status + " " + response.description); continue; }
    inner.append(el("p", {}, el("strong", {}, status), " " + response.description));
    const answer = body(doc, "Answer", response.content);
    if (answer) inner.append(answer);
    stream ||= Boolean(response.content && response.content["text/event-stream"]);
    lines ||= Boolean(response.content && !response.content["application/json"]);
  }
  if (failures.length) inner.append(el("p", { className: "soft" }, "Problems: " + failures.join(" · ")));
  const details = el("details", { id: op.operationId }, el("summary", {}, badge(method), el("code", {}, path), el("span", { className: "soft" }, op.summary || "")), inner);
  details.addEventListener("toggle", () => inner.append(form(doc, { path, method, op, stream, lines })), { once: true });
  return details;
}

// groupsOf returns the operations by tag, with the texts that a search reads.
function groupsOf(doc) {
  const groups = new Map();
  for (const [path, item] of Object.entries(doc.paths)) for (const [method, op] of Object.entries(item)) {
    if (op.parameters) op.parameters = op.parameters.map(p => resolve(doc, p));
    const tag = (op.tags || ["Other"])[0];
    if (!groups.has(tag)) groups.set(tag, []);
    const names = (op.parameters || []).map(p => p.name).join(" ");
    groups.get(tag).push({ method, path, op, words: [tag, method, path, op.operationId, op.summary, names].join(" ").toLowerCase() });
  }
  return groups;
}

// searchable hides the calls that lack a word of the search.
function searchable(entries, headings) {
  const input = find("search"), found = find("found");
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n = 0;
    for (const { words: text, link, details } of entries) {
      const hit = words.every(w => text.includes(w));
      link.hidden = details.hidden = !hit;
      n += hit;
    }
    for (const { heading, of } of headings) heading.hidden = of.every(e => e.link.hidden);
    find("guides").hidden = words.length > 0;
    found.textContent = words.length === 0 ? "" : n === 1 ? "1 call" : n + " calls";
  };
  input.addEventListener("input", filter);
  input.addEventListener("keydown", e => {
    if (e.key === "Escape" && input.value) { input.value = ""; filter(); e.stopPropagation(); }
    const shown = entries.filter(entry => !entry.link.hidden), wanted = input.value.trim().toLowerCase();
    const first = shown.find(({ op }) => op.operationId === wanted) ?? shown.find(({ op }) => op.operationId.startsWith(wanted)) ?? shown[0];
    if (e.key === "Enter" && first) { input.blur(); location.hash = "#" + first.details.id; first.details.open = true; }
  });
  addEventListener("keydown", e => {
    if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) return;
    e.preventDefault();
    menu(true);
    input.focus();
  });
}

// menu opens or closes the list of calls on a narrow screen.
function menu(open) {
  find("calls").classList.toggle("open", open);
  find("menu").ariaExpanded = String(open);
}

function show() {
  menu(false);
  const named = location.hash && find(location.hash.slice(1));
  if (!named) return;
  if (named.tagName === "DETAILS") named.open = true;
  named.scrollIntoView();
  (named.querySelector("summary") || named).focus({ preventScroll: true });
}

async function draw() {
  const res = await fetch(base + "/openapi.json");
  if (!res.ok) throw new Error(res.status);
  const doc = await res.json();
  const list = find("list"), calls = el("div", {}), entries = [], headings = [];
  for (const [tag, ops] of groupsOf(doc)) {
    const of = ops.map(o => ({ ...o, details: operation(doc, o), link: el("a", { href: "#" + o.op.operationId, title: o.path }, badge(o.method), el("span", {}, o.op.operationId)) }));
    for (const parent of [list, calls]) {
      const heading = el("h2", {}, tag);
      headings.push({ heading, of });
      parent.append(heading, ...of.map(e => parent === list ? e.link : e.details));
    }
    entries.push(...of);
  }
  const all = find("open-all");
  all.addEventListener("click", () => {
    const open = all.textContent === "Open all";
    for (const { details } of entries) details.open = open;
    all.textContent = open ? "Close all" : "Open all";
  });
  find("description").textContent = doc.info.description || "";
  find("version").textContent = "OpenAPI " + doc.openapi + ", version " + doc.info.version;
  find("operations").replaceChildren(calls);
  tokens(doc);
  searchable(entries, headings);
  find("menu").addEventListener("click", () => menu(find("menu").ariaExpanded !== "true"));
  find("calls").addEventListener("keydown", e => { if (e.key === "Escape") { menu(false); find("menu").focus(); } });
  list.addEventListener("click", e => { if (e.target.closest("a")) show(); }); // the address may be the same
  addEventListener("hashchange", show);
  show();
}
draw().catch(err => { find("operations").replaceChildren(el("p", {}, "The document could not be loaded: " + err.message)); });
