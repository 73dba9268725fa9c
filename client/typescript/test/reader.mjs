// This program runs the code of docs/BROWSER.md, whose blocks e2e has built as one module beside the
// tests.
import assert from 'node:assert/strict';

import { Fanfare } from '../dist/src/index.js';
import { baseUrl, newUser, until } from '../dist/test/service.js';

const states = [], lines = [];
let posts = new Map(), counts = new Map(), unread;
globalThis.page = {
  draw: items => {
    posts = new Map(items.map(({ post }) => [post.id, post.text]));
    counts = new Map(items.map(({ post, like_count }) => [post.id, like_count]));
  },
  badge: number => { unread = number; },
  state: text => states.push(text),
};
const { token } = await new Fanfare({ baseUrl }).post('/v1/dev/token', { body: { user_id: 'reader' } });
globalThis.tokenOfSession = async () => token;
console.log = (...words) => lines.push(words);

const guide = await import('../dist/test/guide.js');
assert.equal(lines[0][0], 'text', 'the refusal of the empty comment names the field');
const is = (read, want) => until(async () => read(), got => got === want);
await is(() => [...counts.values()][0], 1);
assert.deepEqual([...posts.values(), ...states], ['Hello', 'live']);

const bob = await newUser(), [post] = posts.keys();
await bob.fanfare.put('/v1/posts/{id}/like', { path: { id: post } });
await is(() => unread, 1);
await is(() => counts.get(post), 2);
await guide.openBell();
assert.deepEqual(lines.at(-1).slice(1), ['like', [bob.id.toUpperCase()], 1]);
assert.equal(unread, 0);
guide.leave(); // the process ends when no stream is open
