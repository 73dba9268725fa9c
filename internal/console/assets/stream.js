// stream.js puts the events of the home's stream into the open page, and tells a reader who does not see
// the page about new posts.
import { number, some } from "./words.js";
import { bell, expired, me } from "./session.js";
import { count, entry } from "./posts.js";

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

const events = {
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
  document.addEventListener("htmx:sse:after:connection", ({ detail: { connection } }) => {
    alive("live", true);
    // The stream has only new posts, so the home is read after the stream has begun.
    if (!connection.lastEventId) htmx.trigger("#home", "fill");
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
    htmx.trigger("#home", "fill");
    setTimeout(() => htmx.trigger("#live", "again"), 2000);
  });
}
