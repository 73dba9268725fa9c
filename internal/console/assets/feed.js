// feed.js begins a page of a feed: it draws the page that the address names, for the user of the tab.
import { draw, markup, setTime, toast } from "./draw.js";
import { face, listen as watchImages } from "./text.js";
import { listen as watchFields } from "./compose.js";
import { bell, bySite, call, listen, me, signOut, stranger } from "./session.js";
import { base } from "./base.js";
import { tell, wire } from "./wires.js";
import { filled, follow } from "./stream.js";
import * as posts from "./posts.js";
import * as people from "./people.js";

const ofUser = (title, call, view, empty) => ({ draw: "user", title, url: "/v1/users/{id}/" + call, view, empty });
const ofPost = (title, call, view, empty) => ({ draw: "post", title, url: "/v1/posts/{id}/" + call, view, empty });
const mine = (title, call, view, empty, rest) => ({ draw: "plain", title, url: "/v1/me/" + call, view, empty, ...rest });

// pages are the pages by their addresses (console.go). A page with a list has the list's first request, and the words for an
// empty list.
const pages = {
  "/": { draw: "home", title: "Home", pictures: [{}] },
  "/profile": { draw: "settings", title: "Your profile" },
  "/users/{id}": ofUser("Posts", "posts?limit=20&expand=view", "entries", "No posts yet."),
  "/users/{id}/comments": ofUser("Comments", "comments?limit=20&expand=view", "said", "No comments yet."),
  "/users/{id}/likes": ofUser("Likes", "likes?limit=20&expand=view", "entries", "No likes yet."),
  "/users/{id}/reactions": ofUser("Reactions", "reactions?limit=20", "reacted", "No reactions yet."),
  "/users/{id}/followers": ofUser("Followers", "followers?limit=50&expand=view", "edges", "Nobody follows this user yet."),
  "/users/{id}/following": ofUser("Following", "following?limit=50&expand=view", "edges", "This user follows nobody yet."),
  "/users/{id}/friends": ofUser("Friends", "friends?limit=50&expand=view", "edges", "Friends follow each other. This user has none yet."),
  "/posts/{id}": ofPost("Comments", "comments?limit=50&expand=view", "comments", "No comments yet."),
  "/posts/{id}/likes": ofPost("Likes", "likes?limit=50&expand=view", "edges", "Nobody likes this post yet."),
  "/posts/{id}/reactions": ofPost("Reactions", "reactions?limit=50", "reactors", "No reactions yet."),
  "/notifications": mine("Notifications", "notifications?limit=20&expand=view", "notifications", "Nothing yet: likes, comments, mentions, reposts and new followers come here."),
  "/bookmarks": mine("Bookmarks", "bookmarks?limit=20&expand=view", "entries", "No bookmarks yet: a post has a button for that."),
  "/mutes": mine("Muted users", "mutes?limit=50&expand=view", "edges", "You mute nobody.", { held: "mute" }),
  "/blocks": mine("Blocked users", "blocks?limit=50&expand=view", "edges", "You block nobody.", { held: "block" }),
};

// more returns the button for the next page of a list.
function more(page, from) {
  const url = new URL(from.getAttribute("hx-get"), location.origin);
  if (page.next_cursor) url.searchParams.set("cursor", page.next_cursor);
  return markup("more", { list: from.getAttribute("hx-target")?.slice(1) ?? from.id, url: page.next_cursor && url.pathname + url.search, view: from.dataset.view, held: from.dataset.held });
}
const each = one => (page, from) => page.items.map(item => one(item, from)).join("") + more(page, from);
const all = view => (page, from) => view(page.items) + more(page, from);

const views = {
  entries: (page, from) => each(item => posts.entry(item))(from.id === "home" ? filled(page) : page, from),
  edges: each(people.edge),
  comments: each(posts.comment),
  said: each(posts.said),
  reacted: all(people.reacted),
  reactors: all(people.reactors),
  notifications: (page, from) => people.notifications(page) + more(page, from),
  found: people.found,
  suggested: answer => people.found({ items: answer.items.filter(u => u.id !== me.id && !u.following) }),
  foundPosts: page => page.items.map(item => posts.entry(item)).join(""),
  post: posts.post, posted: posts.posted, comment: posts.comment, delivery: posts.delivery,
  deliveries: page => page.items.map(posts.posted).join(""),
  user: people.user, me: people.self, muted: people.muted, blocked: people.blocked,
  settings: user => markup("profile-form", user),
};

// done has the functions that are called after an answer without an error.
const done = {
  posted(form) { form.reset(); delete form.dataset.key; tell("posted"); toast("Posted"); },
  commented(form) { form.reset(); },
  edited() { tell("edited"); toast("Saved"); },
  deleted() { location.assign(base + "/users/" + encodeURIComponent(me.id)); },
  removed(button) { button.closest("li").remove(); },
  quoted(form) { done.posted(form); form.closest("details").open = false; },
  reacted: posts.reacted, reposted: posts.reposted, marked: posts.marked,
  toggled(button) { people.toggled(button); tell("follows"); },
  saved(form) { [me.name, me.image] = ["name", "image_url"].map(field => form.elements[field].value); toast("Saved"); },
  gone: signOut,
};

// path is the address of the page.
const path = location.pathname.slice(base.length);

// complete returns the settings of a page, with the ids of the address.
function complete(page) {
  const id = decodeURIComponent(path.split("/")[2] ?? "");
  const url = page.url && new URL(page.url.replace("{id}", encodeURIComponent(id)), location.origin);
  const kind = new URLSearchParams(location.search).get("kind");
  if (url && kind && page.view === "reactors") url.searchParams.set("kind", kind);
  return { ...page, id, user: me.id, url: url && url.pathname + url.search, at: "@" + id, title: url && kind ? `${page.title}: ${kind}` : page.title, order: page.view === "comments" ? "up" : "" };
}

function tick() {
  for (const e of document.querySelectorAll("time")) setTime(e, e.dateTime);
  for (const e of document.querySelectorAll("[data-ends]")) if (new Date(e.dataset.ends) <= new Date()) e.remove();
}

async function begin() {
  const main = document.getElementById("main");
  listen();
  watchImages();
  watchFields();
  // A page that the browser has kept has old data, and its stream has ended.
  addEventListener("pageshow", e => { if (e.persisted) location.reload(); });
  const form = await stranger();
  if (form) return main.replaceChildren(draw("signin", form));
  const page = complete(pages[path.replace(/^(\/(?:users|posts)\/)[^/]+/, "$1{id}")]);
  document.title = page.title + " · Fanfare";
  main.replaceChildren(draw(page.draw, page));
  document.getElementById("account").replaceChildren(draw("account", { home: page.draw === "home", face: face(me.id, me.name, me.image), user: me.id }));
  for (const a of document.querySelectorAll("nav a")) if (a.pathname === location.pathname) a.setAttribute("aria-current", "page");
  document.addEventListener("keydown", e => {
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && e.target.matches("textarea")) e.target.form.requestSubmit();
  });
  document.addEventListener("input", ({ target }) => { delete target.form?.dataset.key; }); // another text is another post
  setInterval(tick, 5000);
  if (page.draw === "home") follow();
  else if (document.getElementById("bell")) bell.asked = call("GET", "/v1/me/notifications/unread?most=10").then(answer => bell(answer.unread), () => {});
  if (bySite) htmx.process(document.body); // htmx began before the answer of the site
}

wire({ views, done });
begin();
