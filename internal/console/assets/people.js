// people.js makes the elements of users, of the follows between them, and of notifications.
import { draw, markup } from "./draw.js";
import { form, listed, number } from "./words.js";
import { about, face, image, rich } from "./text.js";
import { bell, call, me } from "./session.js";

// toggles are the buttons with two words. The path's DELETE takes back what its PUT does.
const toggles = {
  follow: { path: "/v1/me/following/", words: ["Follow", "Unfollow"] },
  mute: { path: "/v1/me/mutes/", words: ["Mute", "Unmute"] },
  block: { path: "/v1/me/blocks/", words: ["Block", "Unblock"] },
};

// toggle returns the values of a button. label is the name of its user, "" where the page names one user only.
function toggle(name, user, on, label = "") {
  const { path, words } = toggles[name], url = path + encodeURIComponent(user);
  return { name, user, label, on: on ? "on" : "", word: words[on ? 1 : 0], put: on ? "" : url, drop: on ? url : "" };
}

// toggled exchanges the word and the request of a button.
export function toggled(button) {
  const { toggle: name, user, on, label } = button.dataset;
  const next = draw("toggle", toggle(name, user, on === undefined, label)).firstElementChild;
  button.replaceWith(next);
  htmx.process(next);
  next.focus();
}

const counts = ({ counts: c }) => ({
  followers: number(c.followers), followersWord: form(c.followers, "follower"), followees: number(c.following), posts: number(c.posts), postsWord: form(c.posts, "post"),
});

const at = list => location.pathname.endsWith("/" + list) ? "page" : "";

// user returns the top of a user's page.
export function user(u) {
  const mine = u.id === me.id;
  document.title = `${u.name} · Fanfare`;
  return markup("profile", {
    ...u, face: face(u.id, u.name, u.image_url), bio: u.bio && rich(u.bio), image: image(u.image_url), mine, other: !mine,
    ...counts(u), atFollowers: at("followers"), atFollowees: at("following"), friends: u.followed_by && u.following ? "friends" : u.followed_by ? "follows you" : "",
    toggle: [draw("toggle", toggle("follow", u.id, u.following))], data: u.data && JSON.stringify(u.data, null, 2),
  });
}

export const self = u => markup("me", {
  ...u, face: face(u.id, u.name, u.image_url), bio: u.bio && rich(u.bio),
  ...counts(u),
});

// held returns the button to mute or block a user. The API has no call for one mute, so held reads the
// list until it has found the user.
const held = (name, list) => (page, from) => {
  const id = from.dataset.user;
  const found = page.items.some(i => i.user_id === id);
  if (!found && page.next_cursor) return markup("held", { name, id, next: `${list}?limit=100&cursor=${encodeURIComponent(page.next_cursor)}` });
  return markup("toggle", toggle(name, id, found));
};
export const muted = held("mute", "/v1/me/mutes"), blocked = held("block", "/v1/me/blocks");

function person(u, more = {}) {
  const known = u.id !== me.id && u.following !== undefined;
  const button = more.held ? toggle(more.held, u.id, true, u.name) : known && toggle("follow", u.id, u.following, u.name);
  return markup("person", { ...more, face: face(u.id, u.name, u.image_url), friends: u.followed_by ? "follows you" : "", toggle: button && [draw("toggle", button)] });
}

// edge returns an item of a list of users: a user who is gone has only the id.
export const edge = (i, from) => person(i.user ?? { id: i.user_id, name: "" }, { since: i.since ?? i.liked_at, held: from.dataset.held });

// reactors and reacted have only ids. So they return an element that reads the users, or the posts.
export function reactors(items) {
  if (items.length === 0) return "";
  const kinds = Object.fromEntries(items.map(i => [i.user_id, i.kind]));
  return markup("loader", { id: "l-" + items[0].user_id, url: "/v1/users?ids=" + items.map(i => encodeURIComponent(i.user_id)).join(), view: "found", kinds: JSON.stringify(kinds) });
}

export function found(answer, from) {
  const kinds = JSON.parse(from?.dataset.kinds || "{}");
  return answer.items.map(u => person(u, { kind: kinds[u.id] })).join("");
}

export const reacted = items => items.length === 0 ? "" : markup("loader", { id: "l-" + items[0].post_id, url: "/v1/posts?ids=" + items.map(i => encodeURIComponent(i.post_id)).join(), view: "foundPosts" });

const verbs = { like: "reacted to your post", comment: "commented on your post", follow: "followed you", mention: "mentioned you", repost: "reposted your post" };

// notification returns one notification, whose actors and post are links.
function notification(n) {
  const actors = n.actors.map(a => draw("name", face(a.user_id, a.user?.name)));
  const more = Math.max(0, (n.count ?? 0) - n.actors.length);
  if (more > 0) actors.push(number(more) + " more");
  const kinds = new Set(n.actors.map(a => a.reaction));
  const verb = n.kind === "like" && kinds.size === 1 && (kinds.has("like") || kinds.has(undefined)) ? "liked your post" : verbs[n.kind];
  const first = n.actors[0];
  return markup("notification", {
    ...n, face: first && face(first.user_id, first.user?.name, first.user?.image_url), who: listed(actors.length ? actors : ["Somebody"]), verb,
    state: n.unread ? "unread" : "", text: n.post ? about(n.post.post, 140) : "a post",
  });
}

// notifications returns the items of the bell's list. The reader sees the top of the first page, so its
// items are read from then on. The bell may count notifications that the list hides, and these are read, too. The page's
// first question for the number is answered before, so no older number replaces the number after the mark.
export function notifications(page) {
  if (page.unread !== undefined) Promise.resolve(bell.asked).then(() => markRead(page));
  return page.items.map(notification).join("");
}

function markRead(page) {
  if (page.unread === 0 && !document.querySelector("#bell .badge")) return;
  call("PUT", "/v1/me/notifications/read", { read_to: page.read_to }).then(answer => bell(answer.unread), () => {});
}
