import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, mock, test } from 'node:test';

import { Fanfare, isUnanswered, NoAnswer, Problem, type Options } from '../src/index.js';
import { answers, inVirtualTime, problem } from './service.js';

// These tables are those of the Go client, too.
interface FalseAnswer {
  name: string;
  status: number; // 0: no answer
  headers?: Record<string, string>;
  body?: string;
  cut?: boolean;
  // means has the meaning for calls with a JSON answer, for calls with an empty answer, and for the stream.
  means: Record<'json' | 'empty' | 'stream', 'done' | 'refused' | 'unanswered' | 'harmless' | 'short'>;
}
const cases = JSON.parse(readFileSync(new URL('../../../testdata/cases.json', import.meta.url), 'utf8')) as {
  answers: FalseAnswer[];
  streams: { name: string; chunks: string[]; events: string[]; place: string }[];
  ids: { refused: string[]; sent: string[] };
};

// server gives one answer to all requests.
let answer: FalseAnswer, requests = 0, underway = 0, baseUrl = '';
const server = http.createServer((request, response) => {
  requests++;
  request.resume().on('end', () => {
    if (answer.status === 0) return request.socket.destroy();
    const body = Buffer.from(answer.body ?? ''), empty = [204, 304].includes(answer.status);
    const headers = Object.entries(answer.headers ?? {}).filter(([, value]) => value);
    response.writeHead(answer.status, { Connection: 'close', ...Object.fromEntries(headers), ...(!empty && { 'Content-Length': body.length + (answer.cut ? 10 : 0) }) });
    if (!answer.cut) return response.end(body);
    response.write(body, () => request.socket.destroy());
  });
});
before(() => new Promise<void>(done => server.listen(0, '127.0.0.1', () => {
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  done();
})));
after(() => server.close());

// whole reads an answer before virtual time goes on.
const whole: typeof fetch = async (input, init) => {
  underway++;
  try {
    const response = await fetch(input, init), parts: Uint8Array[] = [];
    let failure: unknown;
    try {
      const reader = response.body?.getReader();
      for (let next; reader && !(next = await reader.read()).done; ) parts.push(next.value);
    } catch (error) {
      failure = error;
    }
    if (!response.body) return response;
    return new Response(new ReadableStream<Uint8Array>({
      pull(to) {
        const part = parts.shift();
        if (part) to.enqueue(part);
        else if (failure) to.error(failure);
        else to.close();
      },
    }), response);
  } finally {
    underway--;
  }
};

function client(options: Partial<Options> = {}) {
  requests = 0;
  return new Fanfare({ baseUrl, token: 't', fetch: whole, ...options });
}

const failure = (act: Promise<unknown>): Promise<unknown> => act.then(() => undefined, (error: unknown) => error ?? new Error('thrown'));

function check(error: unknown, means: string, repeat: boolean, what: string) {
  what += `: ${error}`;
  switch (means) {
    case 'done': assert.equal(error, undefined, what); break;
    case 'refused': assert.ok(error instanceof Problem && error.status === answer.status && !isUnanswered(error), what); break;
    case 'harmless': assert.ok(error instanceof Problem && error.status === answer.status, what); break;
    default: assert.ok((error instanceof NoAnswer || error instanceof Problem) && isUnanswered(error), what);
  }
  assert.equal(requests, means === 'harmless' || (repeat && ['unanswered', 'short'].includes(means)) ? 6 : 1, what);
}

const id = { path: { id: 'x' } };
const calls: [string, 'json' | 'empty', boolean, (f: Fanfare) => Promise<unknown>][] = [
  ['get', 'json', true, f => f.get('/v1/me')],
  ['all', 'json', true, async f => { for await (const _ of f.all('/v1/me/bookmarks')) assert.fail('an item'); }],
  ['put with an answer', 'json', true, f => f.put('/v1/me', { body: { name: 'A' } })],
  ['post with a key', 'json', true, f => f.post('/v1/posts', { body: { text: 'Hi' } })],
  ['post', 'json', false, f => f.post('/v1/posts/{id}/comments', { ...id, body: { text: 'Hi' } })],
  ['patch', 'json', false, f => f.patch('/v1/posts/{id}', { ...id, body: { text: 'Hi' } })],
  ['put', 'empty', true, f => f.put('/v1/posts/{id}/like', id)],
  ['delete', 'empty', true, f => f.delete('/v1/posts/{id}', id)],
];

test('only the service answers: who may have answered, and what the client does', async () => {
  for (answer of cases.answers) {
    for (const [name, kind, repeat, act] of calls) {
      const fanfare = client();
      const [error, took] = await inVirtualTime(() => failure(act(fanfare)), () => underway > 0);
      check(error, answer.means[kind], repeat, `${answer.name}: ${name}`);
      if (requests === 6) assert.ok(took >= 3000, `${answer.name}: ${name}: six attempts in ${took} ms`);
    }
  }
});

test('only the service streams: no other answer opens the stream, and the waits double', async () => {
  for (answer of cases.answers) {
    const end = new AbortController(), home = client().live({ signal: end.signal });
    let opened = 0, interrupted = 0, refused: unknown;
    await inVirtualTime(async () => {
      const timer = setTimeout(() => end.abort(), 60_000);
      try {
        for await (const { event } of home) {
          if (event === 'open') opened++;
          else if (event === 'interrupted') interrupted++;
          else assert.fail(event);
        }
      } catch (error) {
        refused = error;
      }
      clearTimeout(timer);
    }, () => underway > 0);
    const means = answer.means.stream;
    if (means === 'refused') {
      assert.ok(refused instanceof Problem && refused.status === answer.status, `${answer.name}: ${refused}`);
      assert.equal(requests, 1, answer.name);
      continue;
    }
    assert.equal(refused, undefined, answer.name);
    assert.equal(opened > 0, means === 'short', answer.name);
    assert.ok(requests > 10 && requests < 30 && interrupted >= requests - 1, `${answer.name}: ${requests} requests in a minute`);
  }
});

// inParts answers with a stream in parts, and then with a refusal.
function inParts(parts: Uint8Array[]) {
  let place: string | undefined, asked = 0;
  const fake: typeof fetch = async (_, init) => {
    place = (init!.headers as Record<string, string>)['Last-Event-ID'];
    if (asked++) return problem(409);
    const body = new ReadableStream<Uint8Array>({ pull: to => { const part = parts.shift(); if (part) to.enqueue(part); else to.close(); } });
    return new Response(body, { headers: { 'Content-Type': 'text/event-stream; charset=utf-8' } });
  };
  return { fetch: fake, place: () => place ?? '' };
}

test('streams are read by the HTML standard', async () => {
  for (const { name, chunks, events, place } of cases.streams) {
    const parts = chunks.map(chunk => new TextEncoder().encode(chunk)), all = Buffer.concat(parts);
    for (const way of [parts, [all], Array.from(all, byte => Uint8Array.of(byte))]) {
      const sent = inParts([...way]), got: string[] = [];
      await inVirtualTime(() => assert.rejects(async () => {
        for await (const event of new Fanfare({ baseUrl: '', fetch: sent.fetch }).live()) {
          if (event.event === 'entry') got.push(`entry ${event.item.post.id}`);
          if (event.event === 'edited') got.push(`edited ${event.item.post.id}`);
          if (event.event === 'deleted') got.push(`deleted ${event.post_id}`);
          if (event.event === 'changed') got.push(`changed ${event.post_id}`);
          if (event.event === 'likes') got.push(`likes ${event.likes.post_id} ${event.likes.count} ${event.likes.reactions?.like}`);
          if (event.event === 'stale') got.push('stale');
          if (event.event === 'notifications') got.push(`unread ${event.unread}`);
        }
      }, (error: Problem) => error.status === 409));
      assert.deepEqual([got, sent.place()], [events, place], `${name} in ${way.length} parts`);
    }
  }
});

test('a stream without an end of its event is given up', async () => {
  for (const part of ['x'.repeat(1000), `data: ${'x'.repeat(1000)}\n`]) {
    const sent = inParts(Array.from({ length: 3000 }, () => new TextEncoder().encode(part)));
    const home = new Fanfare({ baseUrl: '', fetch: sent.fetch }).live();
    await home.next();
    const { value } = await home.next();
    assert.match(String(value?.event === 'interrupted' && value.error), /larger than/);
    await home.return();
  }
});

test('an id stays in its place', async () => {
  const act: ((f: Fanfare, id: string) => Promise<unknown>)[] = [
    (f, id) => f.delete('/v1/me/following/{id}', { path: { id } }),
    (f, id) => f.delete('/v1/posts/{id}/comments/{comment}', { path: { id, comment: 'c' } }),
    (f, id) => f.get('/v1/users/{id}/relationships/{other}', { path: { id: 'a', other: id } }),
    (f, name) => f.delete('/v1/me/markers/{name}', { path: { name } }),
    async (f, id) => { for await (const _ of f.all('/v1/users/{id}/followers', { path: { id } })) assert.fail('an item'); },
  ];
  for (const call of act) {
    for (const id of [...cases.ids.refused, undefined as unknown as string, null as unknown as string]) {
      const fake = answers();
      await assert.rejects(call(new Fanfare({ baseUrl: 'http://x', fetch: fake.fetch }), id), (error: unknown) => error instanceof TypeError && !isUnanswered(error), `${id}`);
      assert.equal(fake.requests.length, 0, id);
    }
    for (const id of cases.ids.sent) {
      const fake = answers(problem(403));
      await assert.rejects(call(new Fanfare({ baseUrl: 'http://x', fetch: fake.fetch }), id), Problem);
      assert.ok(`${new URL(fake.requests[0]!.url).pathname}/`.includes(`/${encodeURIComponent(id)}/`), id);
    }
  }
});

test('a call that cannot be sent fails at once, with its own error', async () => {
  for (const cause of [new Error('signed out'), new NoAnswer('another call'), new Problem(404, 'not-found', '', '', [], 0), new Problem(503, 'busy', '', '', [], 9), 'a text']) {
    let asked = 0;
    const fake = answers(null, problem(404));
    const fanfare = new Fanfare({ baseUrl: 'http://x', fetch: fake.fetch, token: async () => { if (++asked > 1) throw cause; return 't'; } });
    const [, took] = await inVirtualTime(() => assert.rejects(fanfare.delete('/v1/posts/{id}', id), (error: unknown) => error === cause));
    await assert.rejects(fanfare.live().next(), (error: unknown) => error === cause);
    assert.deepEqual([asked, fake.requests.length], [3, 1], String(cause));
    assert.ok(took < 1000);
  }
  for (const act of [
    (f: Fanfare) => f.live({ last: 'pläce – 1' }).next(),
    (f: Fanfare) => f.live({ last: 'a\nb' }).next(),
    (f: Fanfare) => f.post('/v1/posts', { body: { text: 'Hi' }, key: 'a–b' }),
  ]) {
    const fake = answers();
    await assert.rejects(act(new Fanfare({ baseUrl: 'http://x', fetch: fake.fetch })), /TypeError: the value of (Last-Event-ID|Idempotency-Key)/);
    assert.equal(fake.requests.length, 0);
  }
  const fake = answers();
  await assert.rejects(new Fanfare({ baseUrl: 'http://x', fetch: fake.fetch, token: 'secr\net' }).get('/v1/me'), (error: unknown) => error instanceof TypeError && !error.message.includes('secr'));
});

test('a call leaves no listener at its signals', async () => {
  const [mine, all] = [new AbortController(), new AbortController()];
  let listeners = 0;
  for (const { signal } of [mine, all]) {
    mock.method(signal, 'addEventListener', (...of: Parameters<AbortSignal['addEventListener']>) => { listeners++; AbortSignal.prototype.addEventListener.apply(signal, of); });
    mock.method(signal, 'removeEventListener', (...of: Parameters<AbortSignal['removeEventListener']>) => { listeners--; AbortSignal.prototype.removeEventListener.apply(signal, of); });
  }
  const outcomes = [Response.json({ items: [] }), null, problem(429), problem(403), new Response('<p>')];
  const fake = answers(...outcomes, Response.json({}));
  const fanfare = new Fanfare({ baseUrl: 'http://x', fetch: fake.fetch, signal: all.signal, attempts: 3 });
  await inVirtualTime(async () => {
    while (fake.requests.length <= outcomes.length) await failure(fanfare.get('/v1/me', { signal: mine.signal }));
    for await (const { event } of fanfare.live({ signal: mine.signal })) if (event === 'interrupted') break;
  });
  assert.equal(listeners, 0);
  const dependants = Object.getOwnPropertySymbols(all.signal).filter(name => String(name) === 'Symbol(kDependantSignals)');
  assert.deepEqual(dependants.map(name => (all.signal as unknown as Record<symbol, Set<unknown> | undefined>)[name]?.size ?? 0).filter(Boolean), []);
});

test('a wait of years is no wait of nothing', async () => {
  const fake = answers(problem(503, { 'Retry-After': 'Wed, 21 Oct 2199 07:28:00 GMT' }), problem(503));
  const end = new AbortController(), home = new Fanfare({ baseUrl: 'http://x', fetch: fake.fetch }).live({ signal: end.signal });
  await inVirtualTime(async () => {
    setTimeout(() => end.abort(), 60_000);
    for await (const _ of home);
  });
  assert.equal(fake.requests.length, 1);
});
