// wires.js connects htmx with the JSON of the API: requests have JSON and the user's token, and a view
// makes the elements of an answer.
import { draw, toast } from "./draw.js";
import { mentioned } from "./text.js";
import { gather } from "./compose.js";
import { base } from "./base.js";
import { expired, me, refusal } from "./session.js";

export const tell = name => htmx.trigger(document.body, name);

// values returns the fields of a request's body. A form with data-mentions names the users in its text.
function values({ request, sourceElement, vals }) {
  const fields = { ...Object.fromEntries(request.body), ...vals };
  gather(sourceElement, fields);
  if (sourceElement.dataset.mentions !== undefined) fields.mentions = mentioned(fields.text);
  return fields;
}

function configure({ request, sourceElement }) {
  request.action = base + request.action;
  request.headers.Accept = request.headers.Accept?.includes("event-stream") ? "text/event-stream" : "application/json";
  if (me.token) request.headers.Authorization = "Bearer " + me.token;
  if (sourceElement.dataset.view === "posted") request.headers["Idempotency-Key"] = sourceElement.dataset.key ||= String(crypto.getRandomValues(new Uint32Array(4)));
}

function prepare(ctx) {
  const { request, sourceElement } = ctx;
  if (sourceElement.getAttribute("aria-pressed") === "true") request.method = "DELETE";
  if (!request.body) return;
  const fields = values(ctx);
  request.body = null;
  if (Object.keys(fields).length === 0) return;
  request.body = JSON.stringify(fields);
  request.headers["Content-Type"] = "application/json";
}

// problemOf returns the problem of an answer. The operators' page gets its problems as text.
function problemOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return { title: text };
  }
}

// refuse shows why a request was refused: instead of the page, instead of a list's items, or briefly.
function refuse(from, problem) {
  if (from.dataset.whole !== undefined) return document.getElementById("main").replaceChildren(draw("problem", { ...problem, text: refusal(problem) }));
  const empty = from.matches(".list") && from.nextElementSibling;
  if (!empty) return toast(refusal(problem));
  from.classList.remove("loading");
  empty.textContent = refusal(problem);
}

function answered(ctx, { views, refused, done }) {
  const from = ctx.sourceElement, status = ctx.response.status;
  if (status >= 400) {
    ctx.swap = "none";
    if (status === 401) return expired();
    const problem = problemOf(ctx.text), refuseView = refused?.[from.dataset.view];
    return refuseView ? refuseView(problem, from) : refuse(from, problem);
  }
  from.classList.remove("loading");
  const view = views[from.dataset.view];
  if (view) ctx.text = view(JSON.parse(ctx.text), from);
  done[from.dataset.done]?.(from, ctx);
}

// place finds the element before which a list inserts e. A list has its items by id, upwards or
// downwards, or as they come.
function place(list, e) {
  const { order } = list.dataset;
  return order ? [...list.children].find(other => order === "up" ? other.id > e.id : other.id < e.id) ?? null : null;
}

// byID inserts elements into a list, once each. An element with the focus is not replaced.
export function byID(list, added) {
  for (const e of added) {
    const old = document.getElementById(e.id);
    if (old?.contains(document.activeElement)) continue;
    if (old?.parentElement === list && !list.dataset.order) old.replaceWith(e);
    else {
      old?.remove();
      list.insertBefore(e, place(list, e));
    }
  }
  return added.filter(e => e.isConnected);
}

// wire connects the page's functions: views make the markup of an answer, refused shows the problem of a
// view, and done are called after an answer without an error. Call wire before htmx begins.
export function wire(page) {
  const on = (name, handle) => document.addEventListener("htmx:" + name, ({ detail }) => handle(detail.ctx));
  on("config:request", configure);
  on("before:request", prepare);
  on("after:request", ctx => answered(ctx, page));
  // A request without an answer is repeated by its timer or by the user.
  on("error", ctx => { if (ctx && ctx.sourceElement.id !== "live") toast("Fanfare does not answer."); });
  htmx.registerExtension("fanfare", {
    handle_swap: (style, target, fragment) => style === "by-id" && byID(target, [...fragment.children]),
  });
}
