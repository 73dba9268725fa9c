import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Fanfare, type LikesChange, Problem } from '../src/index.js';
import { answers, baseUrl, inVirtualTime, newUser, next, problem, until } from './service.js';

test('a home sends posts, likes and unread notifications', async () => {
  const [ann, bob] = [await newUser(), await newUser()];
  await ann.fanfare.put('/v1/me/following/{id}', { path: { id: bob.id } });
  const home = ann.fanfare.live();
  await next(home, 'open');
  const { id } = await ann.fanfare.post('/v1/posts', { body: { text: 'Mine', kind: 'note' } });
  const { item } = await next(home, 'entry');
  assert.deepEqual([item.post.id, item.post.kind, item.author.id], [id, 'note', ann.id]);
  await bob.fanfare.put('/v1/posts/{id}/like', { path: { id } });
  let unread = 0, likes: LikesChange | undefined;
  while (!likes || !unread) { // the two events come in any order
    const { value } = await home.next();
    if (value?.event === 'likes') likes = value.likes;
    if (value?.event === 'notifications') unread = value.unread;
  }
  assert.deepEqual([likes, unread], [{ post_id: id, count: 1, reactions: { like: 1 } }, 1]);
  await home.return();
});

test('a home continues where it was: each post comes once', async () => {
  let cut = () => {};
  const cutting: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    const { readable, writable } = new TransformStream();
    const end = new AbortController();
    cut = () => end.abort(new Error('cut'));
    response.body!.pipeTo(writable, { signal: end.signal }).catch(() => {});
    return new Response(readable, response);
  };
  const { fanfare, token } = await newUser();
  const home = new Fanfare({ baseUrl, token, fetch: cutting }).live();
  const made: string[] = [], got: string[] = [];
  const post = async (text: string) => { made.push((await fanfare.post('/v1/posts', { body: { text } })).id); };
  let place = '', breaks = 0;
  await next(home, 'open');
  const reading = (async () => {
    for await (const event of home) {
      if (event.event === 'interrupted') breaks++;
      if (event.event !== 'entry') continue;
      got.push(event.item.post.id);
      place = event.place;
      if (got.length === 6) return;
    }
  })();
  for (let i = 0; i < 3; i++) {
    await post('by the stream');
    await until(async () => got.length, length => length === made.length);
    cut();
    await post('while it is cut');
  }
  await reading;
  assert.ok(breaks >= 3);
  assert.deepEqual(got.sort(), made, 'each post once');

  const rest = fanfare.live({ last: place });
  await post('after all');
  for (let id = ''; id !== made.at(-1); assert.notEqual(id, made[0])) id = (await next(rest, 'entry')).item.post.id;
  await rest.return();
});

// streamed returns an answer that sends blocks and then nothing, and waits for each number of
// milliseconds among the blocks. The answer breaks when signal is aborted, as an answer of fetch does.
function streamed(signal: AbortSignal, ...blocks: (string | number)[]): Response {
  return new Response(new ReadableStream({
    async start(to) {
      signal.addEventListener('abort', () => to.error(signal.reason));
      for (const block of blocks) {
        if (typeof block === 'number') await new Promise(done => setTimeout(done, block));
        else to.enqueue(new TextEncoder().encode(block));
      }
    },
  }), { headers: { 'Content-Type': 'text/event-stream' } });
}

test('a silent stream is opened again, behind the last place', async () => {
  const opened: [number, string | undefined][] = [];
  const fake: typeof fetch = async (_, init) => {
    opened.push([Date.now(), (init!.headers as Record<string, string>)['Last-Event-ID']]);
    const entry = `event: entry\nid: p${opened.length}\ndata: {"post":{}}\n\n`;
    return streamed(init!.signal!, ': heartbeat\n\n', entry, `id: place-${opened.length}\n\n`);
  };
  const home = new Fanfare({ baseUrl: '', fetch: fake }).live();
  await inVirtualTime(async () => {
    for (let i = 0; i < 3; i++) await next(home, 'open');
    await home.return();
  });
  assert.deepEqual(opened.map(([, place]) => place), [undefined, 'place-1', 'place-2']);
  const gaps = opened.slice(1).map(([at], i) => at - opened[i]![0]);
  assert.ok(gaps.every(gap => gap >= 40_000 && gap < 41_000), String(gaps));
});

test('a post that a new connection repeats comes once, also if the repeats take long', async () => {
  let opened = 0;
  const entry = (id: string) => `event: entry\nid: ${id}\ndata: {"post":{"id":"${id}"}}\n\n`, place = 'id: place\n\n';
  const fake: typeof fetch = async (_, init) =>
    streamed(init!.signal!, ...(opened++ ? [place, 11_000, entry('a'), place, entry('b'), place, entry('c'), 11_000, place, entry('a')] : [place, entry('a'), entry('b')]));
  const home = new Fanfare({ baseUrl: '', fetch: fake }).live();
  await inVirtualTime(async () => {
    for (const id of ['a', 'b', 'c', 'a']) assert.equal((await next(home, 'entry')).item.post.id, id); // the home shows the first one again
    await home.return();
  });
  assert.equal(opened, 2);
});

test('a service that is busy is asked again, one that refuses is not', async () => {
  const fake = answers(problem(503, { 'Retry-After': '9' }), null, problem(429), problem(409));
  const home = new Fanfare({ baseUrl: '', fetch: fake.fetch }).live();
  await inVirtualTime(() => assert.rejects(next(home, 'entry'), (error: Problem) => error.status === 409));
  assert.equal(fake.requests.length, 4);
  assert.ok(fake.requests[1]!.at - fake.requests[0]!.at >= 9000);
});

test('a home ends with its signal', async () => {
  const end = new AbortController();
  const { fanfare } = await newUser();
  const home = fanfare.live({ signal: end.signal });
  await next(home, 'open');
  setImmediate(() => end.abort());
  await assert.rejects(next(home, 'entry'), /the stream ended/);
});
