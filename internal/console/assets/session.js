// session.js has the user of this tab, and the calls that no element of the page makes. The token stays
// in the tab, and goes only to the host that served the page. Where a site identifies its users by sessions,
// there is no token.
import { draw, toast } from "./draw.js";
import { another } from "./compose.js";
import { base } from "./base.js";

const keep = (name, value) => sessionStorage.setItem("fanfare." + name, value);
export const me = {
  get token() { return sessionStorage.getItem("fanfare.token"); },
  get id() { return sessionStorage.getItem("fanfare.user"); },
  get name() { return sessionStorage.getItem("fanfare.name") || this.id; },
  set name(name) { keep("name", name); },
  get image() { return sessionStorage.getItem("fanfare.image"); },
  set image(url) { keep("image", url); },
};

// refusal returns the text of a problem (RFC 9457).
export const refusal = problem => problem.errors?.[0]?.detail || problem.detail || problem.title;

const request = (method, path, token, body) => fetch(base + path, {
  method, body: body && JSON.stringify(body),
  headers: { Accept: "application/json", ...(token && { Authorization: "Bearer " + token }), ...(body && { "Content-Type": "application/json" }) },
});

export async function call(method, path, body, token = me.token) {
  const answer = await request(method, path, token, body);
  const data = answer.status === 204 || answer.status === 202 ? null : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(refusal(data)), { problem: data });
  return data;
}

// bySite means that a session of the site identifies the user.
export const bySite = document.body.dataset.site !== undefined;

function enter(profile) {
  keep("user", profile.id);
  [me.name, me.image] = [profile.name, profile.image_url];
}

const isNew = e => Boolean(e.problem?.type?.endsWith("profile-missing"));

// recognise asks the site for the user, who may have changed since the last page of the tab. It returns the values of
// the form for somebody without a profile, null for a user.
async function recognise() {
  try {
    enter(await call("GET", "/v1/me"));
    return null;
  } catch (e) {
    sessionStorage.clear();
    return { joins: isNew(e), text: isNew(e) ? "You are new here: choose a name." : e.message };
  }
}

// stranger returns the values of the form to sign in, null for a user.
export const stranger = () => bySite ? recognise() : me.token ? null : {};

async function signIn(values) {
  const problem = document.getElementById("problem");
  problem.textContent = "";
  try {
    const token = bySite ? "" : values.token?.trim() || (await call("POST", "/v1/dev/token", { user_id: values.user }, "")).token;
    enter(await (values.name ? call("PUT", "/v1/me", { name: values.name }, token) : call("GET", "/v1/me", undefined, token)));
    keep("token", token);
    location.reload();
  } catch (e) {
    const unknown = isNew(e);
    problem.textContent = unknown ? "You are new here: give a name, too." : e.message;
    if (unknown) document.querySelector("[name=name]").focus();
  }
}

export function signOut() {
  sessionStorage.clear();
  location.assign(base + "/");
}

// expired draws the form to sign in again, at the same address.
export function expired() {
  sessionStorage.clear();
  location.reload();
}

// find opens a post by its id (a ULID), or a user by an id.
function find({ id }) {
  id = id.trim().replace(/^@/, "");
  location.assign(base + (/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/.test(id) ? "/posts/" : "/users/") + encodeURIComponent(id));
}

// save stores all data of the user as a file.
async function save(button) {
  button.disabled = true;
  try {
    const answer = await request("GET", "/v1/me/export", me.token);
    if (!answer.ok) throw new Error(refusal(await answer.json()));
    const a = document.createElement("a");
    a.href = URL.createObjectURL(await answer.blob());
    a.download = me.id + ".jsonl";
    a.click();
    URL.revokeObjectURL(a.href);
    toast("Saved as " + a.download);
  } catch (e) {
    toast(e.message);
  }
  button.disabled = false;
}

const submits = { signIn, find };
const clicks = { signOut, save, another, signInAs: button => signIn({ user: button.dataset.user }) };

// listen handles the forms and buttons that make no call of the API by htmx.
export function listen() {
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
}

// bell shows the number of unread notifications. 10 means 10 or more.
export function bell(unread) {
  const link = document.getElementById("bell");
  link?.querySelector(".badge")?.remove();
  if (link && unread > 0) link.append(draw("badge", { text: unread > 9 ? "9+" : unread, words: " unread" }));
}
