// moderator.js begins the moderators' page: it opens a post or a user, as the address names it, and ends
// either. The page has no rights of its own: the admin address has the operations.
import { draw, toast } from "./draw.js";
import { form, number, some } from "./words.js";
import { face, image, listen, pictures, quotes, repostedBy, rich } from "./text.js";

const seen = document.getElementById("seen"), open = document.getElementById("open");
const admin = (kind, id, rest = "") => `/admin/${kind}/${encodeURIComponent(id)}${rest}`;

// ask returns the answer of an operation. An answer that refuses is an error, whose message is for people.
async function ask(path, body) {
  const answer = await fetch(path, body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(text.trim() || answer.statusText);
  return JSON.parse(text);
}

// A repost shows its original, as in a home.
const entry = (item, line = "") => item.repost ? entry(item.repost, repostedBy(item)) : draw("post", {
  ...item, line, quotes: quotes(item), ...pictures(item.post.images), face: face(item.post.author_id, item.author?.name, item.author?.image_url), text: rich(item.post.text),
  likes: some(item.like_count, "like"), comments: some(item.comment_count ?? 0, "comment"), edited: item.post.edited_at && { at: item.post.edited_at },
  data: item.post.data && JSON.stringify(item.post.data, null, 2),
});

function whole(id, { view, delivery: d }) {
  const down = d.taken_down;
  return draw("whole", {
    id, post: view && [entry(view)], down, gone: !view && (down ? "Taken down: " + down.reason : "This post is gone: " + (d.reason || "it was deleted") + "."),
    delivery: `Post ${id}, delivery ${d.state}` + (d.planned ? ` to ${number(d.delivered ?? 0)} of ${some(d.planned, "home")}` : ""),
  });
}

function person(id, { user, posts, next_cursor: older }, later) {
  const { followers, following } = user.counts;
  return draw("user", {
    id, older, user: !later && user, face: face(user.id, user.name, user.image_url), bio: rich(user.bio), image: image(user.image_url),
    counts: `${number(followers)} ${form(followers, "follower")}, ${number(following)} following, ${some(user.counts.posts, "post")}`,
    posts: posts.map(item => entry(item)), none: posts.length === 0 && "None.",
  });
}

async function look() {
  const at = new URLSearchParams(location.search), user = at.get("user"), post = at.get("post"), cursor = at.get("cursor") ?? "";
  if (!user && !post) return seen.replaceChildren(); // and leave what was typed before this script ran
  open.elements.user.value = user ?? "";
  open.elements.post.value = post ?? "";
  try {
    seen.replaceChildren(post ? whole(post, await ask(admin("posts", post))) : person(user, await ask(admin("users", user, "?cursor=" + encodeURIComponent(cursor))), cursor));
  } catch (e) {
    seen.replaceChildren(draw("note", { text: e.message }));
  }
}

const acts = {
  async takedown({ dataset: { id } }, { reason }) {
    if (!confirm("Take this post down for good?")) return;
    const down = await ask(admin("posts", id, "/takedown"), { reason });
    toast("Taken down: " + down.reason);
    await look();
  },
  async forget({ dataset: { id } }, { again }) {
    if (again !== id) throw new Error(`This is not the id of the user: type ${id}.`);
    const done = await ask(admin("users", id, "/forget"), {});
    seen.replaceChildren(draw("note", { text: `${id} is removed, with ${some(done.removed, "thing")} of the user. The workers do the rest.` + (done.likes_stay ? " Likes of the user stay and count: FANFARE_LIKES_BY_USER is off." : "") }));
  },
};

seen.addEventListener("submit", async e => {
  e.preventDefault();
  const button = e.target.querySelector("button");
  button.disabled = true;
  try {
    await acts[e.target.dataset.act](e.target, Object.fromEntries(new FormData(e.target)));
  } catch (error) {
    toast(error.message);
  }
  button.disabled = false;
});

open.addEventListener("submit", e => {
  e.preventDefault();
  const named = [...new FormData(open)].map(([name, id]) => [name, id.trim()]).filter(([, id]) => id);
  history.pushState(null, "", "?" + new URLSearchParams(named));
  look();
});
addEventListener("popstate", look);
listen();
look();
