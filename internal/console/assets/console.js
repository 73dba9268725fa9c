// console.js draws JSON with the <template> elements of the page, as text and never as markup.
// It gives the user's token to htmx, and calls only the host that served the page.
"use strict";

// --- drawing

const at = (data, path) => path === "." ? data : path.split(".").reduce((o, key) => o?.[key], data);

// fill sets the texts and attributes of the elements below root. The elements name them in
// data-text, data-attr ("name={path};…"), data-if and data-each.
function fill(root, data) {
  for (const e of root.querySelectorAll("[data-each]")) {
    const items = at(data, e.dataset.each);
    e.removeAttribute("data-each");
    e.replaceWith(...items.map(item => {
      const box = document.createElement("div");
      box.append(e.cloneNode(true));
      fill(box, item);
      return box.firstChild;
    }));
  }
  for (const e of root.querySelectorAll("[data-if]")) if (!at(data, e.dataset.if)) e.remove();
  for (const e of root.querySelectorAll("[data-text]")) {
    e.textContent = at(data, e.dataset.text) ?? "";
    e.removeAttribute("data-text");
  }
  for (const e of root.querySelectorAll("[data-attr]")) {
    const attrs = e.dataset.attr;
    e.removeAttribute("data-attr");
    for (const attr of attrs.split(";")) {
      const [, name, pattern] = attr.match(/^([^=]+)=(.*)$/s);
      const encode = /^(href|hx-(get|put|post|delete))$/.test(name) && !/^\{\w+\}$/.test(pattern) ? encodeURIComponent : String;
      const value = pattern.replace(/\{([\w.]+)\}/g, (_, path) => encode(at(data, path) ?? ""));
      if (value) e.setAttribute(name, value);
    }
  }
  return root;
}

const draw = (name, data) => fill(document.getElementById("t-" + name).content.cloneNode(true), data);

// markup returns the result of draw as text, because htmx needs text. The browser escapes the
// values that draw has set.
function markup(name, data) {
  const box = document.createElement("div");
  box.append(draw(name, data));
  return box.innerHTML;
}

function ago(time) {
  const seconds = Math.max(0, (Date.now() - new Date(time)) / 1000);
  if (seconds < 10) return "now";
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) if (seconds >= size) return Math.floor(seconds / size) + " " + unit;
  return Math.floor(seconds) + " s";
}

// face returns the parts of an avatar.
function face(id, name) {
  const words = [...(name || id).matchAll(/[\p{L}\p{N}]+/gu)].map(m => [...m[0]][0]);
  let sum = 0;
  for (const c of id) sum = (sum * 31 + c.codePointAt(0)) % 6;
  return { initials: (words[0] ?? "?").toUpperCase() + (words.length > 1 ? words.at(-1).toUpperCase() : ""), tone: sum, at: "@" + id };
}

function toast(text) {
  const box = document.getElementById("toast");
  box.textContent = text;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { box.textContent = ""; }, 6000);
}

// --- the user of this tab

const me = { get token() { return sessionStorage.getItem("fanfare.token"); }, get id() { return sessionStorage.getItem("fanfare.user"); } };

async function call(method, path, token, body) {
  const answer = await fetch(path, {
    method, body: body && JSON.stringify(body),
    headers: { ...(token && { Authorization: "Bearer " + token }), ...(body && { "Content-Type": "application/json" }) },
  });
  const data = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(data.detail || data.title), { problem: data });
  return data;
}

async function signIn(values) {
  const problem = document.getElementById("problem");
  problem.textContent = "";
  try {
    const token = values.token?.trim() || (await call("POST", "/v1/dev/token", "", { user_id: values.user })).token;
    const profile = await (values.name ? call("PUT", "/v1/me", token, { name: values.name }) : call("GET", "/v1/me", token));
    sessionStorage.setItem("fanfare.token", token);
    sessionStorage.setItem("fanfare.user", profile.id);
    location.reload();
  } catch (e) {
    const unknown = e.problem?.type?.endsWith("profile-missing");
    problem.textContent = unknown ? "You are new here: give a name, too." : e.message;
    if (unknown) document.querySelector("[name=name]").focus();
  }
}

function signOut() {
  sessionStorage.clear();
  location.reload();
}

const submits = { signIn };
const clicks = { signOut, signInAs: button => signIn({ user: button.dataset.user }) };
document.addEventListener("submit", e => {
  const submit = submits[e.target.dataset.submit];
  if (!submit) return;
  e.preventDefault();
  submit(Object.fromEntries(new FormData(e.target)));
});
document.addEventListener("click", e => {
  const button = e.target.closest("[data-click]");
  if (button) clicks[button.dataset.click](button);
});

// --- views: each function returns the markup of a JSON answer

// kinds returns the counts of all reactions except likes, as text.
const kinds = reactions => Object.entries(reactions ?? {}).filter(([kind]) => kind !== "like").map(([kind, n]) => `${kind} ${n}`).sort().join(" · ");

// ends returns the end of a post as text, if the post has an end.
const ends = post => post.expires_at && "ends " + new Date(post.expires_at).toLocaleString();

const entry = item => markup("entry", { ...item, kinds: kinds(item.reactions), ...face(item.post.author_id, item.author.name), author: { name: item.author.name || item.post.author_id }, ago: ago(item.post.created_at), ends: ends(item.post), data: item.post.data && JSON.stringify(item.post.data, null, 2) });
const posted = post => markup("posted", { ...post, ago: ago(post.created_at) });

// shown is the maximum number of followees in the list.
const shown = 12;

const views = {
  home: page => page.items.map(entry).join("") + markup("older", { next_cursor: "", ...page }),
  me: user => markup("me", { ...user, ...face(user.id, user.name) }),
  posted,
  deliveries: page => page.items.map(posted).join(""),
  following(page) {
    const ids = new Set([me.id, ...page.items.map(i => i.user_id)]);
    for (const b of document.querySelectorAll("#suggested button")) b.hidden = ids.has(b.dataset.user);
    const more = page.next_cursor ? "more" : page.items.length > shown && page.items.length - shown + " more";
    return page.items.slice(0, shown).map(i => markup("followee", { ...i, ...face(i.user_id) })).join("") + (more ? markup("more", { more }) : "");
  },
  delivery(d, from) {
    const ended = !["queued", "running"].includes(d.state);
    const homes = (d.delivered ?? 0) + (d.skipped ?? 0);
    const share = d.state === "complete" ? 1 : d.planned ? homes / d.planned : 0;
    const total = Math.max(1, d.chunks_total ?? 1), cells = Math.min(total, 48);
    const done = d.state === "complete" ? cells : Math.floor((d.chunks_done ?? 0) / total * cells);
    const took = d.completed_at && new Date(d.completed_at) - new Date(d.accepted_at);
    const some = (n, one) => n.toLocaleString("en") + " " + one + (n === 1 ? "" : "s");
    const words = {
      pulled: "this author is large: homes merge its posts in when they are read", cancelled: d.reason,
      queued: "queued",
    }[d.state] ?? `${(d.delivered ?? 0).toLocaleString("en")} of ${some(d.planned ?? 0, "home")} · ${d.chunks_done ?? 0} of ${some(d.chunks_total ?? 0, "chunk")}`
      + (d.skipped ? ` · ${d.skipped} away` : "") + (took === null ? "" : ` · ${Math.max(1, took)} ms`);
    return markup("delivery", {
      state: d.state, post: from.dataset.post, poll: ended ? "" : `/v1/posts/${encodeURIComponent(from.dataset.post)}/delivery`, words,
      percent: Math.floor(share * 100), percentText: ["pulled", "cancelled"].includes(d.state) ? d.state : Math.floor(share * 100) + " %",
      chunks: Array.from({ length: cells }, (_, i) => i < done ? "done" : "open"),
    });
  },
  letters(letters, from) {
    const topic = from.dataset.topic;
    const rows = letters.map(l => markup("letter", { ...l, payload: l.payload ?? "base64: " + (l.payload_base64 ?? ""), ago: ago(l.failed_at), times: l.receives + " ×", one: JSON.stringify({ ids: [l.id] }) }));
    if (letters.length > 1) rows.push(markup("letters", { topic, words: "all dead letters of this topic", all: JSON.stringify({ all: true }) }));
    return rows.join("");
  },
};

// count shows the counts of a post.
function count(post, likes, reactions) {
  const e = document.getElementById("p-" + post)?.querySelector(".count");
  if (!e) return;
  e.textContent = likes;
  document.getElementById("p-" + post).querySelector(".kinds").textContent = kinds(reactions);
  e.classList.remove("counting");
}

// settle reads the count of a post after its likes were counted. If the stream has already sent
// the count, settle does nothing. The stream has only the counts of the newest posts.
function settle(post) {
  const waits = () => document.getElementById("p-" + post)?.querySelector(".counting");
  document.getElementById("p-" + post).querySelector(".count").classList.add("counting");
  setTimeout(() => {
    if (!waits()) return;
    call("GET", `/v1/posts/${encodeURIComponent(post)}/reactions/count`, me.token).then(c => { if (waits()) count(post, c.counts.like ?? 0, c.counts); }, e => toast(e.message));
  }, Number(document.body.dataset.likesCounted));
}

const tell = name => htmx.trigger(document.body, name);

// done has the functions that are called after an answer without an error.
const done = {
  posted(form) { form.reset(); delete form.dataset.key; tell("posted"); },
  like(button) {
    button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
    settle(button.dataset.post);
  },
  follow(from) { if (from.matches("form")) from.reset(); tell("follows"); },
  unfollow(button) {
    for (const e of document.querySelectorAll(`[data-author="${CSS.escape(button.dataset.user)}"]`)) e.remove();
    tell("follows");
  },
  redriven(_, ctx) {
    const { sent, refused } = JSON.parse(ctx.text);
    toast(sent + " sent again" + (refused ? ", " + refused + " too old" : ""));
    tell("redriven");
  },
};

// --- htmx

document.addEventListener("htmx:config:request", ({ detail: { ctx: { request, sourceElement } } }) => {
  request.headers.Accept = request.headers.Accept?.includes("event-stream") ? "text/event-stream" : "application/json";
  if (me.token) request.headers.Authorization = "Bearer " + me.token;
  if (sourceElement.dataset.view === "posted") request.headers["Idempotency-Key"] = sourceElement.dataset.key ||= String(crypto.getRandomValues(new Uint32Array(4)));
  request.action = request.action.replace(/\{(\w+)\}/g, (_, name) => {
    const value = request.body.get(name);
    request.body.delete(name);
    return encodeURIComponent(value);
  });
});

document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
  const { request, sourceElement } = ctx;
  if (sourceElement.getAttribute("aria-pressed") === "true") request.method = "DELETE";
  if (!request.body) return;
  const values = { ...Object.fromEntries(request.body), ...ctx.vals };
  request.body = null;
  if (Object.keys(values).length === 0) return;
  request.body = JSON.stringify(values);
  request.headers["Content-Type"] = "application/json";
});

document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
  const from = ctx.sourceElement, status = ctx.response.status;
  if (status >= 400) {
    ctx.swap = "none";
    if (status === 401) return signOut();
    let problem = ctx.text;
    try { const p = JSON.parse(ctx.text); problem = p.errors?.[0]?.detail || p.detail || p.title; } catch {}
    toast(problem);
    return;
  }
  const view = views[from.dataset.view];
  if (view) ctx.text = view(JSON.parse(ctx.text), from);
  done[from.dataset.done]?.(from, ctx);
});

// A request without an answer is repeated by its timer or by the user.
document.addEventListener("htmx:error", ({ detail: { ctx } }) => { if (ctx && ctx.sourceElement.id !== "live") toast("Fanfare does not answer."); });

// The swap style by-id inserts each element in the order of ids, the highest id first. An element
// with the focus is not replaced.
htmx.registerExtension("fanfare", {
  handle_swap(style, target, fragment) {
    if (style !== "by-id") return false;
    const added = [...fragment.children];
    for (const e of added) {
      const old = document.getElementById(e.id);
      if (old?.contains(document.activeElement)) continue;
      old?.remove();
      target.insertBefore(e, [...target.children].find(other => other.id < e.id) ?? null);
    }
    return added.filter(e => e.isConnected);
  },
});

// --- the stream

const alive = (text, on) => {
  const e = document.getElementById("live");
  e.textContent = text;
  e.classList.toggle("on", on);
};
document.addEventListener("htmx:sse:after:connection", ({ detail: { connection } }) => {
  alive("live", true);
  // The stream has only new posts, so the home is read after the stream has begun.
  if (!connection.lastEventId) htmx.trigger("#home", "fill");
});
document.addEventListener("htmx:sse:before:message", e => {
  const { message } = e.detail, data = JSON.parse(message.data);
  if (message.event === "likes") {
    e.preventDefault();
    count(data.post_id, data.count, data.reactions);
  } else if (message.event === "entry") {
    message.data = entry(data).replace('class="card entry"', 'class="card entry fresh"');
    message.event = ""; // htmx swaps messages without a name
  }
});
document.addEventListener("htmx:sse:error", ({ detail }) => {
  if (detail.status === 401) return signOut();
  if (detail.status === 400) return location.reload(); // the server no longer accepts the position
  alive("reconnecting", false);
});
// The first request of the stream was refused or had no answer, so it is repeated.
document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
  if (ctx.sourceElement.id !== "live" || ctx.sourceElement._htmx?.sse) return;
  alive("reconnecting", false);
  htmx.trigger("#home", "fill");
  setTimeout(() => htmx.trigger("#live", "again"), 2000);
});

// --- start

if (document.body.dataset.page === "people") {
  const main = document.getElementById("main");
  if (me.token) {
    main.replaceChildren(draw("app", { user: me.id }));
    document.getElementById("account").replaceChildren(draw("account", { user: me.id, ...face(me.id) }));
    document.getElementById("text").addEventListener("keydown", e => {
      if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) e.target.form.requestSubmit();
    });
    document.getElementById("text").addEventListener("input", e => { delete e.target.form.dataset.key; });
    setInterval(() => {
      for (const e of document.querySelectorAll("time")) e.textContent = ago(e.dateTime);
      for (const e of document.querySelectorAll("[data-ends]")) if (new Date(e.dataset.ends) <= new Date()) e.remove();
    }, 5000);
  } else {
    main.replaceChildren(draw("signin", {}));
  }
}
