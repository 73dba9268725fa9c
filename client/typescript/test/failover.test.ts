import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Fanfare, isUnanswered, type Options } from '../src/index.js';
import { inVirtualTime, next, problem } from './service.js';

const entry = (id: string) => `event: entry\nid: ${id}\ndata: {"post":{"id":"${id}"}}\n\n`;
const standby = () => new Response('{"type":"standby"}', { status: 503, headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '1' } });

// pair has two machines whose answers a test chooses by machine, and a client of both. null means no answer.
function pair(answer: (host: string, headers: Record<string, string>) => Response | null, options: Partial<Options> = {}) {
  const asked: [host: string, at: number, key: string | undefined][] = [];
  const fake: typeof fetch = async (input, init) => {
    const { host } = new URL(String(input)), headers = init!.headers as Record<string, string>;
    asked.push([host, Date.now(), headers['Idempotency-Key'] ?? headers['Last-Event-ID']]);
    const response = answer(host, headers);
    if (!response) throw new TypeError('fetch failed');
    return response;
  };
  return { asked, fanfare: new Fanfare({ baseUrl: 'http://one', others: ['http://two'], fetch: fake, ...options }) };
}

const comment = (fanfare: Fanfare) => fanfare.post('/v1/posts/{id}/comments', { path: { id: 'x' }, body: { text: 'Hi' } });

test('a call goes to the machine that serves, and the next call too', async () => {
  for (const refusal of [standby, () => null]) {
    const { asked, fanfare } = pair(host => host === 'two' ? Response.json({}) : refusal());
    await fanfare.post('/v1/posts', { body: { text: 'Hi' } });
    await comment(fanfare);
    assert.deepEqual(asked.map(([host]) => host), ['one', 'two', 'two']);
    assert.equal(asked[0]![2], asked[1]![2], 'one key');
  }
});

test('a comment is repeated only if it had no effect', async () => {
  const refused = pair(host => host === 'two' ? Response.json({}) : standby());
  await comment(refused.fanfare);
  const lost = pair(() => null);
  await assert.rejects(comment(lost.fanfare), isUnanswered);
  assert.equal(lost.asked.length, 1);
});

test('an answer that is cut is asked for again with the same key', async () => {
  const cut = () => new Response(new ReadableStream({ start: to => to.error(new TypeError('cut')) }), { headers: { 'Content-Type': 'application/json' } });
  let lost = false;
  const { asked, fanfare } = pair(host => {
    if (host === 'two') return Response.json({ id: 'p' });
    if (lost) return null;
    lost = true;
    return cut();
  });
  await inVirtualTime(() => fanfare.post('/v1/posts', { body: { text: 'Hi' }, key: 'mine' }));
  assert.equal(asked.at(-1)![0], 'two');
  assert.ok(asked.every(([, , key]) => key === 'mine'));
});

test('a call waits for the end of a failover', async () => {
  for (const [over, served] of [[25_000, true], [40_000, false]] as const) {
    const { asked, fanfare } = pair(host => host === 'one' ? null : Date.now() < over ? standby() : Response.json({}), { failover: 30_000 });
    await inVirtualTime(async () => {
      const call = fanfare.get('/v1/me');
      if (served) await call;
      else await assert.rejects(call, isUnanswered);
    });
    const times = asked.filter(([host]) => host === 'two').map(([, at]) => at);
    assert.ok(times.slice(1).every((at, i) => at - times[i]! >= 1000), 'Retry-After');
    if (served) assert.ok(times.at(-1)! < over + 2000);
  }
});

test('a stream continues at the new primary: each post comes once', async () => {
  let lost = false;
  const stream = (...blocks: string[]) => new Response(blocks.join(''), { headers: { 'Content-Type': 'text/event-stream' } });
  const { asked, fanfare } = pair((host, headers) => {
    if (host === 'one') {
      if (lost) return problem(503);
      lost = true;
      return stream('id: place1\n\n', entry('a'), entry('b'), 'event: entry\nid: c\ndata: {"po');
    }
    return headers['Last-Event-ID'] === 'place1' ? stream(entry('b'), entry('c'), 'id: place2\n\n', entry('d')) : problem(409);
  });
  const home = fanfare.live();
  await inVirtualTime(async () => {
    for (const id of ['a', 'b', 'c', 'd']) assert.equal((await next(home, 'entry')).item.post.id, id);
    await home.return();
  });
  assert.deepEqual(asked.map(([host, , place]) => [host, place]), [['one', undefined], ['one', 'place1'], ['two', 'place1']]);
});
