import { applied, Fanfare, living, reread, untilEnd } from 'fanfare-client';

import { Bell } from './bell.js';

const $ = name => document.getElementById(name);
const home = $('home');

let items; // of the page, newest first
let fanfare;

// draw makes the list equal to the items. An element whose post is the same stays.
function draw(changed) {
  items = changed;
  const elements = items.map(item => {
    const old = $(item.post.id), version = item.post.edited_at ?? '';
    if (old?.dataset.version !== version) return entry(item, version);
    show(old.querySelector('.like'), item.like_count);
    return old;
  });
  home.replaceChildren(...elements);
  clearTimeout(draw.timer);
  const wait = untilEnd(items);
  if (wait !== undefined) draw.timer = setTimeout(() => draw(living(items)), wait);
}

function entry({ post, author, like_count, liked }, version) {
  const by = document.createElement('strong');
  by.textContent = author.name || author.id;
  const text = document.createElement('p');
  text.textContent = post.text;
  const like = document.createElement('button');
  like.type = 'button';
  like.className = 'like';
  like.setAttribute('aria-pressed', liked);
  like.addEventListener('click', () => toggle(post.id, like));
  const item = document.createElement('li');
  item.id = post.id;
  item.dataset.version = version;
  item.append(...picture(author.image_url && { url: author.image_url, width: 32, height: 32 }, 'avatar'), by, text, ...(post.images ?? []).flatMap(image => picture(image)), like);
  show(like, like_count);
  return item;
}

// picture returns an image. The size keeps its place until the image is loaded. An image that cannot be loaded is its alt text.
function picture(image, name = 'picture') {
  if (!image) return [];
  const { url, alt = '', width, height } = image;
  const img = Object.assign(document.createElement('img'), { className: name, loading: 'lazy', alt });
  if (width) Object.assign(img, { width, height });
  img.addEventListener('error', () => { img.hidden = !alt; });
  img.src = url;
  return [img];
}

function show(like, count) {
  like.textContent = count === 1 ? '1 like' : `${count} likes`;
}

// A like is an event: the answer means that the event is durable, and the count follows by the stream.
async function toggle(post, like) {
  const liked = like.getAttribute('aria-pressed') !== 'true';
  like.setAttribute('aria-pressed', liked);
  try {
    await fanfare[liked ? 'put' : 'delete']('/v1/posts/{id}/like', { path: { id: post } });
  } catch (error) {
    like.setAttribute('aria-pressed', !liked);
    problem(error);
  }
}

function problem(error) {
  $('problem').textContent = error?.message ?? '';
}

let open;
$('connect').addEventListener('submit', async event => {
  event.preventDefault();
  open?.abort();
  const { signal } = open = new AbortController();
  draw([]);
  problem();
  const form = new FormData(event.target);
  fanfare = new Fanfare({ baseUrl: form.get('api'), token: form.get('token').trim(), signal });
  const bell = new Bell(fanfare, problem);
  try {
    for await (const event of fanfare.live()) {
      switch (event.event) {
        case 'open': case 'stale': await read(); break;
        case 'interrupted': state('interrupted', event.error); break;
        case 'notifications': bell.ring(event.unread); break;
        default: draw(applied(items, event));
      }
    }
  } catch (error) {
    if (!signal.aborted) state('refused', error);
  }
});

async function read() {
  state('live');
  $('feed').hidden = false;
  $('connection').open = false;
  // The stream is open, so each change is in this list or arrives by the stream.
  try {
    draw(await reread(fanfare, items));
  } catch (error) {
    problem(error);
  }
}

function state(now, error) {
  $('state').value = now;
  problem(error);
}
