// text.js makes nodes from the texts, the images and the names of users. A link leads to http or https
// only, and tells the other host nothing about the reader's page. A page loads an image only from its
// own host and from the hosts in data-images (Content-Security-Policy): any other image is a link.

import { base } from "./base.js";

// A URL ends before a quote, an angle bracket, and each invisible or turning character, because these
// would let the link look like another link.
const words = /https?:\/\/[^\s<>"'`\p{C}]+|(?<![\p{L}\p{N}_.@/-])@[A-Za-z0-9_-][A-Za-z0-9_.:@|-]*/giu;

function address(text) {
  try {
    const url = new URL(text);
    return /^https?:$/.test(url.protocol) && !url.username && !url.password ? url : null;
  } catch {
    return null;
  }
}

function link(href, text) {
  const a = document.createElement("a");
  a.href = href;
  a.textContent = text;
  return a;
}

function outside(url, text) {
  const a = link(url.href, text);
  a.rel = "noopener noreferrer nofollow";
  a.target = "_blank";
  a.dir = "ltr";
  a.title = url.href; // it shows the host as the browser reads the host
  return a;
}

function person(text, mentions) {
  for (let id = text.slice(1); id; id = id.slice(0, -1)) {
    if (mentions.includes(id)) return link(base + "/users/" + encodeURIComponent(id), "@" + id);
    if (!/[.:|]$/.test(id)) return null;
  }
  return null;
}

// rich returns a text with links: to URLs, and to the users that the text mentions.
export function rich(text, mentions = []) {
  const nodes = [];
  let end = 0;
  for (const { 0: word, index } of text.matchAll(words)) {
    const bare = word.replace(/[.,;:!?)\]}…]+$/u, ""), url = word[0] === "@" ? null : address(bare);
    const a = word[0] === "@" ? person(word, mentions) : url && outside(url, cut(bare, 60));
    if (!a) continue;
    nodes.push(text.slice(end, index), a);
    end = index + (url ? bare : a.textContent).length;
  }
  return [...nodes, text.slice(end)];
}

// mentioned returns the ids that a text names with @, each once.
export function mentioned(text) {
  const found = [...text.matchAll(words)].filter(m => m[0][0] === "@").map(m => m[0].slice(1).replace(/[.:|]+$/, "").slice(0, 64));
  return [...new Set(found)].slice(0, 50);
}

// cut returns the beginning of a long text, at a character's end.
export function cut(text, most) {
  const characters = [...text];
  return characters.length > most ? characters.slice(0, most).join("") + "…" : text;
}

// about returns a post in one line: its text, or the description of a picture.
export const about = (post, most) => cut((post.text || post.images?.find(i => i.alt)?.alt || "a post without a text").replace(/\s+/g, " "), most);

// name returns the name of an item's author. repostedBy and quotes return the lines about the references of an item.
export const name = item => item.author?.name || item.post.author_id;
export const repostedBy = item => "reposted by " + name(item);
export const quotes = item => item.quote && `quotes ${name(item.quote)}: ${about(item.quote.post, 60)}`;

// DEMO is the path of the demo's pictures, which are at every address of Fanfare. So these pictures are shown by whatever name
// a reader opens the page.
const DEMO = "/console/pictures/";

// source returns the address from which the page may load a picture, "" if the page may not (FANFARE_CONSOLE_IMAGES).
export function source(text) {
  const url = text && address(text);
  if (!url) return "";
  if (url.pathname.startsWith(DEMO)) return base + url.pathname;
  return [location.origin, ...document.body.dataset.images.split(" ")].includes(url.origin) ? url.href : "";
}

// picture returns an image, and shows the text instead if the image cannot be loaded (see listen).
function picture(src, instead, alt = "") {
  const img = document.createElement("img");
  img.loading = "lazy";
  img.decoding = "async";
  img.src = src;
  img.alt = alt;
  img.dataset.instead = instead;
  return img;
}

// listen replaces the images that cannot be loaded, also a page of a host that is no image.
export function listen() {
  document.addEventListener("error", e => { if (e.target.dataset?.instead) e.target.replaceWith(e.target.dataset.instead); }, true);
}

// TALL is the largest height of a picture that is alone, in pixels (feed.css).
const TALL = 384;

// shown returns a link to a picture, with the picture if the page may load it. A page keeps the place of a picture whose size
// is known, so the text below does not move.
function shown({ url: text, alt, width, height }) {
  const url = address(text), src = source(text), about = cut(alt ?? "", 200), at = "Image at " + url.host;
  const a = outside(url, about && !src ? `${at}: ${about}` : at);
  a.dir = "auto";
  if (!src) return a;
  const img = picture(src, about || at, alt);
  const scale = Math.min(1, TALL / height);
  if (width && height) [img.width, img.height] = [Math.round(width * scale) || 1, Math.round(height * scale) || 1];
  if (!alt) a.setAttribute("aria-label", at);
  a.replaceChildren(img);
  return a;
}

// pictures returns the links to the pictures of a post, at most some of them, as values of a template. The pictures that the page
// may load come first.
export function pictures(images = [], most = Infinity) {
  const links = images.slice(0, most).map(shown), loaded = links.filter(a => a.firstElementChild), n = loaded.length;
  return { pictures: links.length > 0 && [...loaded, ...links.filter(a => !a.firstElementChild)], grid: n < 2 ? "" : n % 2 ? "grid odd" : "grid", more: images.length > most };
}

// image returns a link to the image of a profile, if the page may not load it as the avatar.
export const image = text => text && address(text) && !source(text) && [shown({ url: text })];

// face returns the parts of a user's name and avatar.
export function face(id, name, imageURL) {
  const found = [...(name || id).matchAll(/[\p{L}\p{N}]+/gu)].map(m => [...m[0]][0]);
  let sum = 0;
  for (const c of id) sum = (sum * 31 + c.codePointAt(0)) % 6;
  const initials = (found[0] ?? "?").toUpperCase() + (found.length > 1 ? found.at(-1).toUpperCase() : "");
  const src = source(imageURL);
  return { id, name: name || id, at: "@" + id, tone: sum, avatar: src ? [picture(src, initials)] : [initials] };
}
