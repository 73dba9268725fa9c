// samples.js writes a call as code. A call has op, method, path (the template), values (of the path and the query), url
// (without the origin), headers, body, token, and stream.
import { base, el, keep, kept } from "./dom.js";

const quoted = s => "'" + s.replaceAll("'", "'\\''") + "'";
const parse = text => { try { return JSON.parse(text); } catch { return undefined; } };

// curl writes a call as a command for a shell.
function curl(call) {
  const lines = ["curl" + (call.stream ? " -N" : "") + (call.method === "GET" ? "" : " -X " + call.method) + " " + quoted(location.origin + call.url)];
  for (const [name, value] of Object.entries(call.headers)) lines.push("-H " + quoted(name + ": " + value));
  if (call.body !== undefined) lines.push("--data-raw " + quoted(call.body));
  return lines.join(" \\\n  ");
}

// go fills the sample of the document, which the tests compile, with the values of the call. The variable err exists.
function go(call) {
  let source = (call.op["x-codeSamples"] || []).find(s => s.lang === "Go")?.source ?? "";
  for (const { given, example } of call.values) {
    if (given && example) source = source.replaceAll(JSON.stringify(example), () => JSON.stringify(given));
  }
  const made = call.auth ? `client.New(${JSON.stringify(location.origin + base)}, client.WithToken(${JSON.stringify(call.token)}))` : `client.New(${JSON.stringify(location.origin + base)})`;
  return `// import "fanfare/client"\nc, err := ${made}\nif err != nil {\n\treturn err\n}\n\n${source.replace(/^err :=/m, "err =").trimEnd()}`;
}

// script writes a value of JSON as TypeScript, and python as Python.
function script(v) {
  if (Array.isArray(v)) return "[" + v.map(script).join(", ") + "]";
  if (v !== null && typeof v === "object") return "{ " + Object.entries(v).map(([k, x]) => (/^\w+$/.test(k) ? k : JSON.stringify(k)) + ": " + script(x)).join(", ") + " }";
  return JSON.stringify(v);
}
const constants = new Map([[true, "True"], [false, "False"], [null, "None"]]);
function python(v) {
  if (Array.isArray(v)) return "[" + v.map(python).join(", ") + "]";
  if (v !== null && typeof v === "object") return "{" + Object.entries(v).map(([k, x]) => JSON.stringify(k) + ": " + python(x)).join(", ") + "}";
  return constants.get(v) ?? JSON.stringify(v);
}

function typeScript(call) {
  const head = `import { Fanfare } from "fanfare-client";\n\nconst fanfare = new Fanfare({ baseUrl: ${JSON.stringify(location.origin + base)}${call.auth ? `, token: ${JSON.stringify(call.token)}` : ""} });\n`;
  if (call.stream) return head + "for await (const event of fanfare.live()) console.log(event);";
  if (call.lines) { // the answer is not one value of JSON, so no client reads it
    return `const answer = await fetch(${JSON.stringify(location.origin + call.url)}, {\n  headers: ${script(call.headers)},\n});\nconsole.log(await answer.text());`;
  }
  const parts = {};
  for (const { name, place, given, number } of call.values) {
    if (given !== "" && place !== "header") (parts[place] ??= {})[name] = number ? Number(given) : given;
  }
  if (call.body !== undefined) parts.body = parse(call.body) ?? {};
  if (call.headers["Idempotency-Key"]) parts.key = call.headers["Idempotency-Key"];
  const args = JSON.stringify(call.path) + (Object.keys(parts).length ? ", " + script(parts) : "");
  if (call.paged) return head + `for await (const item of fanfare.all(${args})) console.log(item);`;
  return head + `const answer = await fanfare.${call.method.toLowerCase()}(${args});\nconsole.log(answer);`;
}

function pythonCode(call) {
  const lines = ["import requests", "", `answer = requests.request(${JSON.stringify(call.method)}, ${JSON.stringify(location.origin + call.url)},`];
  const { "Content-Type": _, ...headers } = call.headers;
  const json = call.body === undefined ? undefined : parse(call.body);
  const sent = json === undefined ? call.headers : headers;
  if (Object.keys(sent).length) lines.push("    headers=" + python(sent) + ",");
  if (json !== undefined) lines.push("    json=" + python(json) + ",");
  else if (call.body !== undefined) lines.push("    data=" + JSON.stringify(call.body) + ".encode(),");
  if (call.stream) lines.push("    stream=True,");
  lines.push(")", "answer.raise_for_status()");
  lines.push(call.stream ? "for line in answer.iter_lines(decode_unicode=True):\n    print(line)" : "print(answer.text)");
  return lines.join("\n");
}

const languages = { curl: ["curl", curl], go: ["Go", go], typescript: ["TypeScript", typeScript], python: ["Python", pythonCode] };

// samples returns the tabs with the code of a call, and a function that shows another call.
export function samples(id) {
  const tabs = el("div", { className: "tabs", role: "tablist", ariaLabel: "Code of this call" });
  const box = el("div", { className: "samples" }, tabs);
  const panels = Object.entries(languages).map(([name, [title, write]]) => {
    const tab = el("button", { type: "button", role: "tab", id: `${id}-${name}-tab` }, title);
    const code = el("pre", { className: "code " + name, id: `${id}-${name}`, tabIndex: 0, role: "tabpanel" });
    tab.setAttribute("aria-controls", code.id);
    code.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => choose(name));
    tabs.append(tab);
    box.append(code);
    return { name, tab, code, write };
  });
  tabs.addEventListener("keydown", e => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!step) return;
    e.preventDefault();
    const next = panels[(panels.findIndex(p => p.tab === e.target) + step + panels.length) % panels.length];
    choose(next.name);
    next.tab.focus();
  });
  if (navigator.clipboard) { // only on https and on this machine
    const copy = el("button", { type: "button", className: "copy" }, "Copy");
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(panels.find(p => !p.code.hidden).code.textContent).then(() => { copy.textContent = "Copied"; }, () => { copy.textContent = "Not copied"; });
      setTimeout(() => { copy.textContent = "Copy"; }, 2000);
    });
    tabs.after(copy);
  }
  const show = () => {
    const chosen = kept("fanfare.code");
    const name = languages[chosen] ? chosen : "curl";
    for (const p of panels) {
      p.code.hidden = p.name !== name;
      p.tab.ariaSelected = String(p.name === name);
      p.tab.tabIndex = p.name === name ? 0 : -1;
    }
  };
  document.addEventListener("code", show);
  show();
  return { box, draw: call => { for (const p of panels) p.code.textContent = p.write(call); } };
}

// choose shows a language in all calls, also on the next visit.
function choose(name) {
  keep("fanfare.code", name);
  document.dispatchEvent(new Event("code"));
}
