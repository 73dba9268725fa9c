// text.js makes nodes from the texts, the images and the names of users. A link leads to http or https
// only, and tells the other host nothing about the reader's page. A page loads an image only from its
// own host (Content-Security-Policy): any other image is a link.

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
    if (mentions.includes(id)) return link("/users/" + encodeURIComponent(id), "@" + id);
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

// picture returns an image, and shows the text instead if the image cannot be loaded (see listen).
function picture(url, instead) {
  const img = document.createElement("img");
  img.setAttribute("loading", "lazy");
  img.src = url.href;
  img.alt = "";
  img.dataset.instead = instead;
  return img;
}

// listen replaces the images that cannot be loaded.
export function listen() {
  document.addEventListener("error", e => { if (e.target.dataset?.instead) e.target.replaceWith(e.target.dataset.instead); }, true);
}

// image returns the image of a post or of a profile.
export function image(text) {
  const url = text && address(text);
  if (!url) return [];
  const a = outside(url, "Image at " + url.host);
  if (url.origin === location.origin) {
    a.setAttribute("aria-label", a.textContent);
    a.replaceChildren(picture(url, a.textContent));
  }
  return [a];
}

// face returns the parts of a user's name and avatar.
export function face(id, name, imageURL) {
  const found = [...(name || id).matchAll(/[\p{L}\p{N}]+/gu)].map(m => [...m[0]][0]);
  let sum = 0;
  for (const c of id) sum = (sum * 31 + c.codePointAt(0)) % 6;
  const initials = (found[0] ?? "?").toUpperCase() + (found.length > 1 ? found.at(-1).toUpperCase() : "");
  const url = imageURL && address(imageURL);
  return { id, name: name || id, at: "@" + id, tone: sum, avatar: url && url.origin === location.origin ? [picture(url, initials)] : [initials] };
}
