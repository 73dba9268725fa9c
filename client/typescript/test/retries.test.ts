import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Fanfare, isUnanswered, NoAnswer, Problem } from '../src/index.js';
import { answers, inVirtualTime, newUser, problem } from './service.js';

const ok = () => Response.json({});

test('a post whose answer is lost is made once', async () => {
  const keys: string[] = [];
  const losing: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    keys.push((init!.headers as Record<string, string>)['Idempotency-Key']!);
    if (keys.length < 3) throw new TypeError('the answer is lost');
    return response;
  };
  const { id, fanfare } = await newUser({ fetch: losing });
  const post = await fanfare.post('/v1/posts', { body: { text: 'Once' } });
  assert.deepEqual(new Set(keys).size, 1);
  const posts = await fanfare.get('/v1/users/{id}/posts', { path: { id } });
  assert.deepEqual(posts.items.map(p => 'id' in p && p.id), [post.id]);
});

test('calls that may not be repeated are sent once, others six times', async () => {
  for (const [times, act] of [
    [1, (f: Fanfare) => f.post('/v1/posts/{id}/comments', { path: { id: 'x' }, body: { text: 'Hi' } })],
    [1, (f: Fanfare) => f.patch('/v1/posts/{id}', { path: { id: 'x' }, body: { text: 'Hi' } })],
    [6, (f: Fanfare) => f.get('/v1/me')],
    [6, (f: Fanfare) => f.put('/v1/posts/{id}/like', { path: { id: 'x' } })],
    [6, (f: Fanfare) => f.post('/v1/posts', { body: { text: 'Hi' }, key: 'mine' })],
  ] as const) {
    for (const answer of [() => problem(503), () => null]) {
      const fake = answers(...Array.from({ length: 9 }, answer));
      await inVirtualTime(() => assert.rejects(act(new Fanfare({ baseUrl: '', fetch: fake.fetch })), isUnanswered));
      assert.equal(fake.requests.length, times);
    }
  }
});

test('a refusal by 429 is repeated after its Retry-After, whatever the call', async () => {
  const fake = answers(problem(429, { 'Retry-After': '7' }), ok());
  const [, took] = await inVirtualTime(() => new Fanfare({ baseUrl: '', fetch: fake.fetch }).post('/v1/posts/{id}/comments', { path: { id: 'x' }, body: { text: 'Hi' } }));
  assert.equal(fake.requests.length, 2);
  assert.ok(took >= 7000 && took < 7200, `after ${took} ms`);
});

test('a Retry-After of more than a minute is left to the caller', async () => {
  const fake = answers(problem(429, { 'Retry-After': '61' }));
  await assert.rejects(new Fanfare({ baseUrl: '', fetch: fake.fetch }).get('/v1/me'), (error: Problem) => error.retryAfter === 61);
});

test('a deletion whose answer was lost has had its effect', async () => {
  const gone = () => new Fanfare({ baseUrl: '', fetch: fake.fetch }).delete('/v1/posts/{id}', { path: { id: 'x' } });
  const nothing = () => new Response('{"type":"not-found"}', { status: 404, headers: { 'Content-Type': 'application/problem+json' } });
  let fake = answers(null, nothing());
  await inVirtualTime(gone);
  assert.equal(fake.requests.length, 2);
  fake = answers(nothing());
  await assert.rejects(gone(), (error: Problem) => error.status === 404);
  fake = answers(null, new Response('<html>', { status: 404 })); // a proxy's page
  await inVirtualTime(() => assert.rejects(gone(), (error: Problem) => error.status === 404));
  fake = answers(null, nothing());
  const like = () => new Fanfare({ baseUrl: '', fetch: fake.fetch }).put('/v1/posts/{id}/like', { path: { id: 'x' } });
  await inVirtualTime(() => assert.rejects(like(), (error: Problem) => error.status === 404)); // only a deletion is done then
});

test('an aborted call fails with the reason of its signal', async () => {
  const reason = new Error('the page was closed');
  const end = new AbortController();
  const fake = answers(null, ok());
  const call = new Fanfare({ baseUrl: '', fetch: fake.fetch, signal: end.signal }).get('/v1/me');
  end.abort(reason);
  await assert.rejects(call, (error: unknown) => error === reason && !(error instanceof NoAnswer));
});
