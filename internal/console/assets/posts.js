// posts.js makes the elements of posts, comments, reactions and deliveries.
import { draw, markup, toast } from "./draw.js";
import { exact, number, some } from "./words.js";
import { about, cut, face, name, pictures, quotes, repostedBy, rich } from "./text.js";
import { base } from "./base.js";
import { call, me } from "./session.js";

// LONG is the number of characters after which a list cuts a post, and MANY the number of pictures.
const LONG = 800, MANY = 4;

const kinds = () => document.body.dataset.reactions.split(",").filter(Boolean);

// reactions returns the counts of all reactions but likes, the largest first.
const reactions = (post, counts) => Object.entries(counts ?? {}).filter(([kind, n]) => kind !== "like" && n > 0)
  .sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
  .map(([kind, n]) => ({ kind, number: number(n), href: `${base}/posts/${encodeURIComponent(post)}/reactions?kind=${encodeURIComponent(kind)}` }));

const text = (post, whole) => rich(whole ? post.text : cut(post.text, LONG), post.mentions);

// entry returns the element of a post with its author and its counts, as markup. A whole entry has the whole
// text and all times.
export const entry = (item, whole = false) => markup("entry", parts(item, whole));

// redrawn returns the element of a post at the place of a card, with the line of the card's reposter, as a fragment.
export const redrawn = (card, item) => draw("entry", parts(item, false, place(card), card.dataset.line));

// place returns the id of the post or the repost at whose place a list shows a card.
export const place = card => card.id.slice(2);

// cards returns the cards of a post: the card at its place, and the cards of its reposts.
export const cards = post => [...document.querySelectorAll(".entry")].filter(card => place(card) === post || card.dataset.post === post);

const timesReposted = n => n > 0 ? number(n) : "";

// A repost shows its original at its own place, with a line that names the reposter. A quote names the quoted post's author and text.
function parts(item, whole, place = item.post.id, line = "") {
  if (item.repost) return parts({ ...item.repost, bookmarked: item.bookmarked, reposted: item.reposted }, whole, item.post.id, repostedBy(item));
  const { post } = item, counts = item.reactions ?? {}, images = pictures(post.images, whole ? undefined : MANY);
  const reposts = Math.max(item.repost_count ?? 0, item.reposted ? 1 : 0); // the user's own repost, before it is counted
  return {
    ...item, ...images, post, place, line, face: face(post.author_id, item.author?.name, item.author?.image_url),
    text: text(post, whole), long: images.more || !whole && cut(post.text, LONG) !== post.text,
    edited: post.edited_at && { at: post.edited_at }, exact: whole && exact(post.created_at),
    ends: [line, quotes(item), post.expires_at && "ends " + exact(post.expires_at)].filter(Boolean).join(", "), data: post.data && JSON.stringify(post.data, null, 2),
    likes: number(item.like_count ?? counts.like ?? 0), comments: item.comment_count > 0 ? number(item.comment_count) : "",
    reposts, repostsWord: timesReposted(reposts), again: String(Boolean(item.reposted)), marked: String(Boolean(item.bookmarked)), pressed: String(Boolean(item.liked)),
    choices: kinds().map(kind => ({ kind, post: post.id, pressed: String(item.reaction === kind) })), chooses: kinds().length > 0,
    counts: reactions(post.id, counts),
  };
}

// post returns the top of the pages of a post. The text is whole on the page of the comments.
export function post(item) {
  const mine = item.post.author_id === me.id;
  document.title = `Post by ${name(item)} · Fanfare`;
  document.getElementById("main").toggleAttribute("data-mine", mine);
  return entry(item, !/\/(likes|reactions)$/.test(location.pathname)) + (mine ? markup("own", { ...item.post, pictures: [...item.post.images ?? [], {}].slice(0, 10) }) : "");
}

export const posted = post => markup("posted", { ...post, text: about(post, 140) });

export function comment(c) {
  return markup("comment", {
    ...c, by: !c.of, face: face(c.author_id, c.author?.name ?? (c.author_id === me.id ? me.name : ""), c.author?.image_url ?? (c.author_id === me.id ? me.image : "")), text: rich(c.text, c.mentions),
    mine: c.author_id === me.id ? "mine" : "", data: c.data && JSON.stringify(c.data, null, 2),
  });
}

// said returns a comment of the page's user, with its post.
export const said = c => comment({ ...c, of: "on: " + (c.post ? about(c.post.post, 60) : "a post") });

// delivery returns the progress of a post on the way to its homes.
export function delivery(d, from) {
  const ended = !["queued", "running"].includes(d.state), complete = d.state === "complete";
  const homes = (d.delivered ?? 0) + (d.skipped ?? 0);
  const percent = Math.floor(100 * (complete ? 1 : d.planned ? homes / d.planned : 0));
  const total = Math.max(1, d.chunks_total ?? 1), cells = Math.min(total, 48);
  const done = complete ? cells : Math.floor((d.chunks_done ?? 0) / total * cells);
  const took = d.completed_at && new Date(d.completed_at) - new Date(d.accepted_at);
  const words = {
    pulled: "this author is large: homes merge its posts in when they are read", cancelled: d.reason, queued: "queued",
  }[d.state] ?? `${number(d.delivered ?? 0)} of ${some(d.planned ?? 0, "home")} · ${number(d.chunks_done ?? 0)} of ${some(d.chunks_total ?? 0, "chunk")}`
    + (d.skipped ? ` · ${number(d.skipped)} away` : "") + (took === null ? "" : ` · ${number(Math.max(1, took))} ms`);
  return markup("delivery", {
    state: d.state, post: from.dataset.post, poll: ended ? "" : `/v1/posts/${encodeURIComponent(from.dataset.post)}/delivery`, words,
    percent, percentText: ["pulled", "cancelled"].includes(d.state) ? d.state : percent + " %",
    chunks: Array.from({ length: cells }, (_, i) => i < done ? "done" : "open"),
  });
}

const within = (post, selector) => cards(post).flatMap(card => [...card.querySelectorAll(selector)]);

// count shows the counts of a post.
export function count(post, likes, counts) {
  for (const e of within(post, ".count")) {
    e.textContent = number(likes);
    e.classList.remove("counting");
  }
  for (const e of within(post, ".kinds")) e.replaceChildren(...reactions(post, counts).flatMap(r => [draw("count", r), " "]));
}

// settle reads the counts of a post after its likes were counted. If the stream has already sent the
// counts, settle does nothing. The stream has only the counts of the newest posts.
function settle(post) {
  const waits = () => within(post, ".counting").length > 0;
  for (const e of within(post, ".count")) e.classList.add("counting");
  setTimeout(() => {
    if (!waits()) return;
    call("GET", `/v1/posts/${encodeURIComponent(post)}/reactions/count`).then(c => { if (waits()) count(post, c.counts.like ?? 0, c.counts); }, e => toast(e.message));
  }, Number(document.body.dataset.likesCounted));
}

// reacted shows the one reaction that a user has to a post: a like is one, too.
export function reacted(button) {
  const on = button.getAttribute("aria-pressed") !== "true", { post } = button.dataset, kind = b => b.getAttribute("hx-put");
  for (const b of within(post, ".like, .kind")) b.setAttribute("aria-pressed", String(on && kind(b) === kind(button)));
  settle(post);
}

const other = button => String(button.getAttribute("aria-pressed") !== "true");

// marked shows on each card of a post that a user has bookmarked the post, or has ended that.
export function marked(button) {
  const pressed = other(button);
  for (const b of within(button.closest(".entry").dataset.post, ".mark")) b.setAttribute("aria-pressed", pressed);
}

// reposted shows on each card of a post that a user has reposted the post, or has ended that. The stored count follows soon.
export function reposted(button) {
  const pressed = other(button), n = Math.max(0, Number(button.dataset.count) + (pressed === "true" ? 1 : -1));
  for (const b of within(button.closest(".entry").dataset.post, ".again")) {
    b.setAttribute("aria-pressed", pressed);
    b.dataset.count = n;
    b.parentElement.querySelector(".reposts").textContent = timesReposted(n);
  }
}
