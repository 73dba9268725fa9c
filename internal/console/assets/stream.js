// stream.js puts the events of the home's stream into the open page, and tells a reader who does not see
// the page about new posts.
import { number, some } from "./words.js";
import { bell, call, expired, me } from "./session.js";
import { count, element, entry } from "./posts.js";
import { byID } from "./wires.js";

// QUIET is the time between two announcements, in milliseconds. A busy home would talk all the time.
const QUIET = 10000;

const fresh = [];
function announce(item) {
  if (item.post.author_id === me.id) return;
  fresh.push(item.author.name || item.post.author_id);
  announce.timer ??= setTimeout(() => {
    const from = [...new Set(fresh)];
    document.getElementById("news").textContent = `${some(fresh.length, "new post")} by ${from.length > 2 ? number(from.length) + " people" : from.join(" and ")}`;
    fresh.length = 0;
    announce.timer = undefined;
  }, announce.told ? QUIET : 500);
  announce.told = true;
}

const alive = (text, on) => {
  const e = document.getElementById("live");
  e.querySelector("span").textContent = text;
  e.classList.toggle("on", on);
};

const shown = post => document.getElementById("p-" + post);

// put draws a post of the page again. The stream does not know the user's bookmarks and reposts.
function put(item) {
  const pressed = button => shown(item.post.id)?.querySelector(button).ariaPressed === "true";
  for (const e of byID(document.getElementById("home"), [...element({ bookmarked: pressed(".mark"), reposted: pressed(".again"), ...item }).children])) htmx.process(e);
}

// since has the events of posts since the last request for the home: an item, or null for a deletion. The
// answer may be older.
const since = new Map();

// again reads the home. The stream does not repeat the changes that the page has missed.
function again() {
  since.clear();
  htmx.trigger("#home", "fill");
}

// filled returns the newest page of the home with the events since its request. It removes the posts that the
// home does not have any more, and reads the older posts of the open page.
export function filled(page) {
  const ids = page.items.map(item => item.post.id), first = ids[0] ?? "", last = page.next_cursor ? ids.at(-1) : "";
  const others = [...document.querySelectorAll("#home > .entry")].map(e => e.id.slice(2)).filter(id => !ids.includes(id) && id < first);
  for (const id of others) if (id > last) shown(id).remove();
  older(others.filter(id => id < last)).catch(() => {}); // the next opening of the stream repeats it
  return { ...page, items: page.items.map(item => since.has(item.post.id) ? since.get(item.post.id) && { ...item, ...since.get(item.post.id) } : item).filter(Boolean) };
}

async function older(ids) {
  while (ids.length) {
    const { items, missing, rest = [] } = await call("GET", "/v1/posts?ids=" + ids.slice(0, 100).join());
    for (const id of missing) shown(id)?.remove();
    for (const item of items) if (shown(item.post.id) && !since.has(item.post.id)) put(item);
    ids = [...rest, ...ids.slice(100)];
  }
}

const events = {
  deleted({ post_id }) {
    since.set(post_id, null);
    shown(post_id)?.remove();
  },
  edited(item) {
    since.set(item.post.id, item);
    if (shown(item.post.id)) put(item);
  },
  stale: again,
  likes: data => count(data.post_id, data.count, data.reactions),
  notifications: data => bell(data.unread),
};

function receive(e) {
  const { message } = e.detail, data = JSON.parse(message.data);
  if (message.event === "entry") {
    message.data = entry(data).replace('class="card entry"', 'class="card entry fresh"');
    message.event = ""; // htmx swaps messages without a name
    announce(data);
  } else if (events[message.event]) {
    e.preventDefault();
    events[message.event](data);
  }
}

// follow connects the page with the stream. Call follow before htmx begins.
export function follow() {
  document.addEventListener("htmx:sse:after:connection", () => {
    alive("live", true);
    again();
  });
  document.addEventListener("htmx:sse:before:message", receive);
  document.addEventListener("htmx:sse:error", ({ detail }) => {
    if (detail.status === 401) return expired();
    if (detail.status === 400) return location.reload(); // the server no longer accepts the position
    alive("reconnecting", false);
  });
  // The first request of the stream was refused or had no answer, so it is repeated.
  document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
    if (ctx.sourceElement.id !== "live" || ctx.sourceElement._htmx?.sse) return;
    alive("reconnecting", false);
    again();
    setTimeout(() => htmx.trigger("#live", "again"), 2000);
  });
}
