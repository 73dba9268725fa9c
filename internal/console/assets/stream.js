// stream.js puts the events of the home's stream into the open page, and tells a reader who does not see
// the page about new posts.
import { number, some } from "./words.js";
import { bell, call, expired, me } from "./session.js";
import { cards, count, entry, place, redrawn } from "./posts.js";
import { byID } from "./wires.js";

// QUIET is the time between two announcements, in milliseconds. A busy home would talk all the time.
const QUIET = 10000;
// SETTLED is the time after which every answer has a post, in milliseconds.
const SETTLED = 10000;

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

const remove = post => cards(post).forEach(card => card.remove());

// kept returns the user's bookmark and repost of a post, as a card shows them. The stream does not know them.
function kept(card) {
  const pressed = button => card.querySelector(button).ariaPressed === "true";
  return { bookmarked: pressed(".mark"), reposted: pressed(".again") };
}

// joined returns an item that arrives, with what another card of its post shows. The user's own repost arrives before it counts.
function joined(item) {
  const { repost } = item, [card] = cards((repost ?? item).post.id), known = card ? kept(card) : {};
  if (repost && item.post.author_id === me.id) known.reposted = true;
  if (!repost || !card) return { ...known, ...item };
  return { ...known, ...item, repost: { ...repost, repost_count: Math.max(repost.repost_count ?? 0, card.querySelector(".again").dataset.count) } };
}

// put draws the cards of a post again.
function put(item) {
  for (const card of cards(item.post.id)) {
    const drawn = redrawn(card, { ...kept(card), ...item });
    for (const e of byID(document.getElementById("home"), [...drawn.children])) htmx.process(e);
  }
}

// once hides each card below another card of the same post, as a page of the home leaves it out.
function once(home) {
  const posts = new Set();
  for (const card of home.children) {
    card.hidden = posts.has(card.dataset.post);
    posts.add(card.dataset.post);
  }
}

// since has the events of posts since the last request for the home: an item, or null for a deletion. The
// answer may be older. renew has the posts that were edited since, of which the stream has only the id. arrived has the
// posts of the events of the last SETTLED, because an answer may lack such a post.
const since = new Map(), renew = new Set(), arrived = new Set();

// changed returns an item after these events, or null if the post, or the original of a repost, was deleted.
function changed(item) {
  const event = since.get(item.post.id), repost = item.repost && changed(item.repost);
  return event === null || repost === null ? null : { ...item, ...event, ...repost && { repost } };
}

// again reads the home. The stream does not repeat the changes that the page has missed.
function again() {
  clearTimeout(again.timer);
  since.clear();
  renew.clear();
  htmx.trigger("#home", "fill");
}

// filled returns the newest page of the home with the events since its request. It removes the posts that the
// home does not have any more, and reads the other posts of the open page. Posts that an answer may lack stay until a later
// answer must have them.
export function filled(page) {
  const ids = page.items.map(item => item.post.id), last = page.next_cursor ? ids.at(-1) : "";
  const others = [...document.querySelectorAll("#home > .entry")].map(place).filter(id => !ids.includes(id));
  const elsewhere = id => id < last || arrived.has(id);
  for (const id of others) if (!elsewhere(id)) document.getElementById("p-" + id).remove();
  if (others.some(id => id > last && arrived.has(id))) again.timer = setTimeout(again, SETTLED);
  const shown = page.items.flatMap(item => [item, item.repost ?? item]).map(item => item.post.id);
  renewed([...others.filter(elsewhere), ...shown.filter(id => renew.has(id))]).catch(() => {}); // the next opening of the stream repeats it
  return { ...page, items: page.items.map(changed).filter(Boolean) };
}

async function renewed(ids) {
  while (ids.length) {
    const { items, missing, rest = [] } = await call("GET", "/v1/posts?ids=" + ids.slice(0, 100).join());
    for (const id of missing) remove(id);
    for (const item of items.map(changed).filter(Boolean)) put(item);
    ids = [...rest, ...ids.slice(100)];
  }
}

const events = {
  deleted({ post_id }) {
    since.set(post_id, null);
    remove(post_id);
  },
  edited(item) {
    since.set(item.post.id, item);
    put(item);
  },
  changed({ post_id }) {
    since.delete(post_id);
    renew.add(post_id);
    if (cards(post_id).length) renewed([post_id]).catch(() => {}); // the next opening of the stream repeats it
  },
  stale: again,
  likes: data => count(data.post_id, data.count, data.reactions),
  notifications: data => bell(data.unread),
};

function receive(e) {
  const { message } = e.detail, data = JSON.parse(message.data);
  if (message.event === "entry") {
    message.data = entry(joined(data)).replace('class="card entry"', 'class="card entry fresh"');
    message.event = ""; // htmx swaps messages without a name
    arrived.add(data.post.id);
    setTimeout(() => arrived.delete(data.post.id), SETTLED);
    announce(data);
  } else if (events[message.event]) {
    e.preventDefault();
    events[message.event](data);
  }
}

// follow connects the page with the stream. Call follow before htmx begins.
export function follow() {
  const home = document.getElementById("home");
  new MutationObserver(() => once(home)).observe(home, { childList: true });
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
