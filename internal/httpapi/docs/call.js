// call.js has the form that sends a call, and the token that calls have.
import { base, el, find } from "./dom.js";
import { samples } from "./samples.js";
import { example } from "./schema.js";

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

// call returns the call that the fields describe.
function callOf(doc, { path, method, op, stream, lines }, inputs, text) {
  const headers = {}, query = new URLSearchParams(), auth = !find("token-form").hidden && op.security.some(s => s.bearer);
  if (auth) headers.Authorization = "Bearer " + (token() || "TOKEN");
  let target = path;
  for (const { p, input } of inputs) {
    if (p.in === "path") target = target.replace("{" + p.name + "}", encodeURIComponent(input.value));
    else if (input.value === "") continue;
    else if (p.in === "query") query.set(p.name, input.value);
    else headers[p.name] = input.value;
  }
  if (text) headers["Content-Type"] = "application/json";
  return {
    op, path, stream, lines, auth, token: token() || "TOKEN", method: method.toUpperCase(), headers, body: text ? text.value : undefined,
    url: base + target + (query.size ? "?" + query : ""), paged: inputs.some(({ p }) => p.name === "cursor"),
    values: inputs.map(({ p, input }) => ({ name: p.name, place: p.in, given: input.value, number: p.schema.type === "integer", example: String(example(doc, p.schema)) })),
  };
}

// send sends a call, and writes the answer to output as it comes.
async function send(call, output, signal) {
  const start = performance.now();
  const res = await fetch(call.url, { method: call.method, headers: call.headers, body: call.body, signal });
  const head = [res.status + " " + res.statusText + " in " + Math.round(performance.now() - start) + " ms"];
  for (const name of ["location", "etag", "retry-after", "x-request-id"]) if (res.headers.has(name)) head.push(name + ": " + res.headers.get(name));
  output.textContent = head.join("\n") + "\n\n";
  if ((res.headers.get("content-type") || "").startsWith("text/event-stream")) {
    const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) output.textContent = (output.textContent + part.value).slice(-100000);
    return;
  }
  const body = await res.text();
  let answer;
  try { answer = JSON.parse(body); } catch { /* 204 has no body */ }
  output.textContent += answer === undefined ? body : JSON.stringify(answer, null, 2);
  if (res.ok) learn(answer);
}

// form returns the form of an operation, and the code of its call.
export function form(doc, operation) {
  const { path, op } = operation;
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
  const sent = media && JSON.stringify(example(doc, media.schema), null, 2);
  const text = media && el("textarea", { spellcheck: false, value: sent, rows: Math.max(3, sent.split("\n").length) });
  if (text) form.append(el("label", {}, "body", text));

  const call = () => callOf(doc, operation, inputs, text);
  const output = el("pre", { className: "answer", hidden: true, tabIndex: 0 });
  output.setAttribute("aria-live", "polite");
  const code = samples(op.operationId);
  const redraw = () => code.draw(call());
  for (const { p, input } of inputs) fields.push({ kind: kindOf(path, p.name), input, redraw });
  form.addEventListener("input", e => { if (e.target !== form) e.target.dataset.edited = "yes"; redraw(); });
  find("token").addEventListener("input", redraw);
  redraw();

  let abort;
  const button = el("button", { type: "submit", className: "primary" }, "Send");
  form.addEventListener("submit", async e => {
    e.preventDefault();
    if (abort) { abort.abort(); return; }
    abort = new AbortController();
    button.textContent = "Stop";
    output.hidden = false;
    try {
      await send(call(), output, abort.signal);
    } catch (err) {
      output.textContent += abort.signal.aborted ? "\nstopped" : "no answer: " + err.message;
    }
    abort = undefined;
    button.textContent = "Send";
  });
  form.append(button, output, code.box);
  return form;
}

// tokens sets up the box for tokens, with the button for dev tokens if the service has dev tokens.
export function tokens(doc) {
  const input = find("token"), answer = find("dev-answer");
  input.value = sessionStorage.getItem("token") || "";
  input.addEventListener("input", () => sessionStorage.setItem("token", token()));
  find("token-form").addEventListener("submit", e => e.preventDefault());
  const form = find("dev-form");
  form.hidden = !doc.paths["/v1/dev/token"];
  form.addEventListener("submit", async e => {
    e.preventDefault();
    try {
      const res = await fetch(base + "/v1/dev/token", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ user_id: find("dev-user").value }) });
      const given = await res.json();
      if (!res.ok) throw new Error(given.detail || res.status);
      input.value = given.token;
      input.dispatchEvent(new Event("input"));
      answer.textContent = "valid until " + new Date(given.expires_at).toLocaleString();
    } catch (err) { answer.textContent = err.message; }
  });
}
