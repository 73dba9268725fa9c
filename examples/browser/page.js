import { Fanfare } from 'fanfare-client';

import { Bell } from './bell.js';

const $ = name => document.getElementById(name);
const home = $('home');

let counts; // by post: the last event about likes, which may arrive before its post
let fanfare;

// Posts may arrive in any order, by the stream and by the list. entry puts each post into its place,
// once.
function entry({ post, author, like_count, liked }) {
  if ($(post.id)) return;
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
  item.append(by, text, like);
  show(like, counts.get(post.id) ?? like_count);
  home.insertBefore(item, [...home.children].find(other => other.id < post.id) ?? null);
}

function show(like, count) {
  like.textContent = count === 1 ? '1 like' : `${count} likes`;
}

function likes({ post_id, count }) {
  counts.set(post_id, count);
  const like = $(post_id)?.querySelector('.like');
  if (like) show(like, count);
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
  home.replaceChildren();
  counts = new Map();
  problem();
  const form = new FormData(event.target);
  fanfare = new Fanfare({ baseUrl: form.get('api'), token: form.get('token').trim(), signal });
  const bell = new Bell(fanfare, problem);
  try {
    for await (const event of fanfare.live()) {
      switch (event.event) {
        case 'open': opened(); break;
        case 'interrupted': state('interrupted', event.error); break;
        case 'entry': entry(event.item); break;
        case 'likes': likes(event.likes); break;
        case 'notifications': bell.ring(event.unread); break;
      }
    }
  } catch (error) {
    if (!signal.aborted) state('refused', error);
  }
});

async function opened() {
  state('live');
  $('feed').hidden = false;
  $('connection').open = false;
  // The stream is open, so each post is in this list or arrives by the stream.
  try {
    (await fanfare.get('/v1/home')).items.forEach(entry);
  } catch (error) {
    problem(error);
  }
}

function state(now, error) {
  $('state').value = now;
  problem(error);
}
