// The page shows /openapi.json, and sends calls to the service that serves the page.
const el = (tag, props, ...children) => {
  const e = Object.assign(document.createElement(tag), props);
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
};
const find = id => document.getElementById(id);
const resolve = (doc, schema) => schema && schema.$ref
  ? schema.$ref.split("/").slice(1).reduce((o, k) => o[k], doc) : schema;

// shape draws a schema as JSON with types for values. An optional name ends with "?".
function shape(doc, schema, depth = 0) {
  if (!schema || depth > 6) return "…";
  if (schema.$ref) return shape(doc, resolve(doc, schema), depth + 1);
  if (schema.type === "object" || schema.properties) {
    const required = new Set(schema.required || []);
    const first = ([name]) => required.has(name) ? 0 : 1;
    return Object.fromEntries(Object.entries(schema.properties || {}).sort((a, b) => first(a) - first(b))
      .map(([name, s]) => [required.has(name) ? name : name + "?", shape(doc, s, depth + 1)]));
  }
  if (schema.type === "array") return [shape(doc, schema.items, depth + 1)];
  const forms = schema.oneOf || schema.anyOf;
  if (forms) return forms.map(s => shape(doc, s, depth + 1));
  return rules(schema);
}
function rules(s) {
  const out = [[s.type].flat().join(" or ")];
  if (s.format) out.push(s.format);
  if (s.enum) out.push("one of " + s.enum.join(", "));
  if (s.minLength !== undefined || s.maxLength !== undefined) out.push((s.minLength ?? 0) + ".." + (s.maxLength ?? "") + " characters");
  if (s.minimum !== undefined || s.maximum !== undefined) out.push((s.minimum ?? "") + ".." + (s.maximum ?? ""));
  if (s.pattern) out.push(s.pattern);
  if (s.default !== undefined) out.push("default " + s.default);
  return out.join(", ");
}

// example returns a value that the service accepts for a schema: the example of the schema, or an object with the
// required fields and the fields with examples.
function example(doc, schema) {
  const s = resolve(doc, schema);
  if (s.examples) return s.examples[0];
  if (!s.properties) return s.default ?? (s.type === "integer" ? s.minimum ?? 0 : "");
  const required = new Set(s.required || []);
  return Object.fromEntries(Object.entries(s.properties)
    .filter(([name, p]) => required.has(name) || p.examples).map(([name, p]) => [name, example(doc, p)]));
}

// The token stays in this tab. The newest ids of answers fill the fields for ids.
const token = () => find("token").value.trim();
const ids = {};
const fields = []; // {kind, input, redraw}
function learn(answer) {
  const seen = answer && (answer.items ? answer.items[0] : answer);
  const thing = seen && (seen.post || seen);
  if (!thing) return;
  if (thing.post_id) { ids.post = thing.post_id; if (thing.id) ids.comment = thing.id; }
  else if (thing.id && "text" in thing) ids.post = thing.id;
  for (const f of fields) {
    if (!ids[f.kind] || f.input.dataset.edited) continue;
    f.input.value = ids[f.kind];
    f.redraw();
  }
}
const kindOf = (path, name) => name === "comment" ? "comment" : name === "id" && path.startsWith("/v1/posts") ? "post" : "";

const quoted = s => "'" + s.replaceAll("'", "'\\''") + "'";
// curl writes a request as a command for a shell.
function curl(request) {
  const lines = ["curl" + (request.stream ? " -N" : "") + (request.method === "GET" ? "" : " -X " + request.method) + " " + quoted(location.origin + request.path)];
  for (const [name, value] of Object.entries(request.headers)) lines.push("-H " + quoted(name + ": " + value));
  if (request.body !== undefined) lines.push("--data-raw " + quoted(request.body));
  return lines.join(" \\\n  ");
}

function tryIt(doc, path, method, op, stream) {
  const inputs = [], form = el("form", { className: "try" }, el("h3", {}, "Try it"));
  for (const p of op.parameters || []) {
    // A parameter in the path needs a value. The page sends other parameters if they have a value.
    const given = p.in === "path" ? ids[kindOf(path, p.name)] || example(doc, p.schema) : "";
    const input = el("input", { value: given, autocomplete: "off", spellcheck: false, required: p.required || false,
      placeholder: p.schema.examples ? String(p.schema.examples[0]) : p.schema.default === undefined ? "" : "default " + p.schema.default });
    inputs.push({ p, input });
    form.append(el("label", {}, p.name, input));
  }
  const media = op.requestBody && op.requestBody.content["application/json"];
  const text = media && el("textarea", { spellcheck: false, value: JSON.stringify(example(doc, media.schema), null, 2) });
  if (text) form.append(el("label", {}, "body", text));

  const request = () => {
    const headers = {}, query = new URLSearchParams();
    if (op.security.some(s => s.bearer)) headers.Authorization = "Bearer " + (token() || "TOKEN");
    let target = path;
    for (const { p, input } of inputs) {
      if (p.in === "path") target = target.replace("{" + p.name + "}", encodeURIComponent(input.value));
      else if (input.value === "") continue;
      else if (p.in === "query") query.set(p.name, input.value);
      else headers[p.name] = input.value;
    }
    if (text) headers["Content-Type"] = "application/json";
    return { method: method.toUpperCase(), path: target + (query.size ? "?" + query : ""), headers, body: text ? text.value : undefined, stream };
  };
  const command = el("pre", { className: "curl" }), output = el("pre", { className: "answer", hidden: true, tabIndex: 0 });
  output.setAttribute("aria-live", "polite");
  const redraw = () => { command.textContent = curl(request()); };
  for (const { p, input } of inputs) fields.push({ kind: kindOf(path, p.name), input, redraw });
  form.addEventListener("input", e => { if (e.target !== form) e.target.dataset.edited = "yes"; redraw(); });
  find("token").addEventListener("input", redraw);
  redraw();

  let abort;
  const send = el("button", { type: "submit" }, "Send");
  form.addEventListener("submit", async e => {
    e.preventDefault();
    if (abort) { abort.abort(); return; }
    abort = new AbortController();
    send.textContent = "Stop";
    output.hidden = false;
    const r = request(), start = performance.now();
    try {
      const res = await fetch(r.path, { method: r.method, headers: r.headers, body: r.body, signal: abort.signal });
      const head = [res.status + " " + res.statusText + " in " + Math.round(performance.now() - start) + " ms"];
      for (const name of ["location", "etag", "retry-after", "x-request-id"]) if (res.headers.has(name)) head.push(name + ": " + res.headers.get(name));
      output.textContent = head.join("\n") + "\n\n";
      if ((res.headers.get("content-type") || "").startsWith("text/event-stream")) {
        const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let part = await reader.read(); !part.done; part = await reader.read()) output.textContent = (output.textContent + part.value).slice(-100000);
      } else {
        const body = await res.text();
        let answer;
        try { answer = JSON.parse(body); } catch { /* 204 has no body */ }
        output.textContent += answer === undefined ? body : JSON.stringify(answer, null, 2);
        if (res.ok) learn(answer);
      }
    } catch (err) {
      output.textContent += abort.signal.aborted ? "\nstopped" : "no answer: " + err.message;
    }
    abort = undefined;
    send.textContent = "Send";
  });
  form.append(send, output, el("h3", {}, "curl"), command);
  const sample = (op["x-codeSamples"] || []).find(s => s.lang === "Go");
  if (sample) form.append(el("h3", {}, "Go, with package client"), el("pre", { className: "go" }, sample.source));
  return form;
}

function body(doc, title, content) {
  if (!content) return null;
  const [type, media] = Object.entries(content)[0];
  return el("div", {}, el("p", { className: "soft" }, title + " ", el("code", {}, type)),
    el("pre", {}, JSON.stringify(shape(doc, media.schema), null, 2)));
}
const badge = method => el("code", { className: "method " + method }, method.toUpperCase());
function operation(doc, path, method, op) {
  const inner = el("div", { className: "inner" });
  if (op.description) inner.append(el("p", {}, op.description));
  if (op.parameters) inner.append(el("table", {}, el("tbody", {}, ...op.parameters.map(p =>
    el("tr", {}, el("td", {}, el("code", {}, p.name)), el("td", { className: "soft" }, p.in + (p.required ? ", required" : "")),
      el("td", {}, (p.description || "") + " ", el("span", { className: "soft" }, rules(p.schema))))))));
  const request = body(doc, "Body", op.requestBody && op.requestBody.content);
  if (request) inner.append(request);
  const failures = [];
  let stream = false;
  for (const [status, response] of Object.entries(op.responses)) {
    if (status >= 400 || status === "default") { failures.push(status + " " + response.description); continue; }
    inner.append(el("p", {}, el("strong", {}, status), " " + response.description));
    const answer = body(doc, "Answer", response.content);
    if (answer) inner.append(answer);
    stream ||= Boolean(response.content && response.content["text/event-stream"]);
  }
  if (failures.length) inner.append(el("p", { className: "soft" }, "Problems: " + failures.join(" · ")));
  const details = el("details", { id: op.operationId }, el("summary", {}, badge(method), el("code", {}, path), el("span", { className: "soft" }, op.summary || "")), inner);
  details.addEventListener("toggle", () => inner.append(tryIt(doc, path, method, op, stream)), { once: true });
  return details;
}

// tokens sets up the box for tokens, with the button for dev tokens if the service has dev tokens.
function tokens(doc) {
  const input = find("token"), answer = find("dev-answer");
  input.value = sessionStorage.getItem("token") || "";
  input.addEventListener("input", () => sessionStorage.setItem("token", token()));
  find("token-form").addEventListener("submit", e => e.preventDefault());
  const form = find("dev-form");
  form.hidden = !doc.paths["/v1/dev/token"];
  form.addEventListener("submit", async e => {
    e.preventDefault();
    try {
      const res = await fetch("/v1/dev/token", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ user_id: find("dev-user").value }) });
      const given = await res.json();
      if (!res.ok) throw new Error(given.detail || res.status);
      input.value = given.token;
      input.dispatchEvent(new Event("input"));
      answer.textContent = "valid until " + new Date(given.expires_at).toLocaleString();
    } catch (err) { answer.textContent = err.message; }
  });
}

async function draw() {
  const res = await fetch("/openapi.json");
  if (!res.ok) throw new Error(res.status);
  const doc = await res.json();
  const groups = new Map(), nav = el("nav", { ariaLabel: "Calls" });
  for (const [path, item] of Object.entries(doc.paths)) for (const [method, op] of Object.entries(item)) {
    const tag = (op.tags || ["Other"])[0];
    if (!groups.has(tag)) groups.set(tag, []);
    groups.get(tag).push({ method, path, op });
  }
  const all = el("button", { type: "button", id: "open-all" }, "Open all");
  const article = el("article", {},
    el("h1", {}, doc.info.title + " API"), el("p", { className: "soft" }, doc.info.description || ""),
    el("p", {}, el("a", { href: "/openapi.json" }, "OpenAPI " + doc.openapi + " document"), " · version " + doc.info.version + " · ", all),
    find("guide").content.cloneNode(true));
  for (const item of Object.values(doc.paths)) for (const op of Object.values(item))
    if (op.parameters) op.parameters = op.parameters.map(p => resolve(doc, p));
  for (const [tag, ops] of groups) {
    nav.append(el("h2", {}, tag), ...ops.map(({ method, path, op }) => el("a", { href: "#" + op.operationId, title: path }, badge(method), op.operationId)));
    article.append(el("h2", {}, tag), ...ops.map(({ method, path, op }) => operation(doc, path, method, op)));
  }
  all.addEventListener("click", () => {
    const open = all.textContent === "Open all";
    for (const d of article.querySelectorAll("details")) d.open = open;
    all.textContent = open ? "Close all" : "Open all";
  });
  find("main").replaceChildren(nav, article);
  tokens(doc);
  const show = () => {
    const named = location.hash && find(location.hash.slice(1));
    if (!named) return;
    if (named.tagName === "DETAILS") named.open = true;
    named.scrollIntoView();
  };
  addEventListener("hashchange", show);
  show();
}
draw().catch(err => { find("main").replaceChildren(el("p", {}, "The document could not be loaded: " + err.message)); });
