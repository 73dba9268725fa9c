import assert from 'node:assert/strict';
import { mock, test } from 'node:test';

import { applied, Fanfare, living, type LiveEvent, renewed, reread, type Schemas, untilEnd } from '../src/index.js';
import { newUser, next } from './service.js';

type HomeItem = Schemas['HomeItem'];

const item = (id: string, text = 'x', expires_at?: string) => ({ post: { id, text, ...(expires_at && { expires_at }) }, like_count: 0 }) as HomeItem;
const ids = (items: HomeItem[]) => items.map(({ post }) => post.id);

test('events change a page', () => {
  let items: HomeItem[] = [];
  const take = (event: object) => { items = applied(items, event as LiveEvent); };
  for (const id of ['B', 'A', 'C', 'B']) take({ event: 'entry', item: item(id) });
  assert.deepEqual(ids(items), ['C', 'B', 'A'], 'newest first, each once');
  take({ event: 'likes', likes: { post_id: 'B', count: 2 } });
  take({ event: 'edited', item: { ...item('A', 'y'), like_count: 1 } });
  take({ event: 'edited', item: item('D') });
  assert.deepEqual(items.map(({ post, like_count }) => [post.id, post.text, like_count]), [['C', 'x', 0], ['B', 'x', 2], ['A', 'y', 1]]);
  for (let i = 0; i < 2; i++) take({ event: 'deleted', post_id: 'B' });
  take({ event: 'stale' });
  assert.deepEqual(ids(items), ['C', 'A']);
  items = [{ ...item('A'), ...{ bookmarked: true } }];
  take({ event: 'entry', item: item('A') });
  assert.ok('bookmarked' in items[0]!, 'an entry has no marks of the reader');
  take({ event: 'likes', likes: { post_id: 'A', count: 2, reactions: { like: 2, wow: 1 } } });
  take({ event: 'likes', likes: { post_id: 'A', count: 3 } });
  assert.deepEqual([items[0]!.like_count, items[0]!.reactions], [3, { like: 2, wow: 1 }], 'a count without reactions leaves them');
});

test('events of a post change its reposts and quotes', () => {
  let items: HomeItem[] = [item('A'), { ...item('R'), repost: item('A') }, { ...item('Q', 'so'), quote: item('A') }, { ...item('S'), repost: item('B') }];
  const take = (event: object) => { items = applied(items, event as LiveEvent); };
  take({ event: 'edited', item: { ...item('A', 'y'), quote: item('B') } });
  take({ event: 'likes', likes: { post_id: 'A', count: 2 } });
  assert.deepEqual(items.map(({ post, repost, quote }) => [post.id, repost?.post.text, quote?.post.text]), [['A', undefined, 'x'], ['R', 'y', undefined], ['Q', undefined, 'y'], ['S', 'x', undefined]]);
  assert.deepEqual(items.map(item => (item.repost ?? item.quote ?? item).like_count), [0, 2, 2, 0]);
  assert.deepEqual([items[0]!.like_count, items[1]!.repost!.quote, items[2]!.quote!.quote], [2, undefined, undefined]);
  take({ event: 'deleted', post_id: 'A' });
  assert.deepEqual(items.map(({ post, repost, quote }) => [post.id, repost?.post.id, quote?.post.id]), [['Q', undefined, undefined], ['S', 'B', undefined]]);
});

test('an edited post that a page shows is read again', async () => {
  const asked: string[] = [];
  const fake: typeof fetch = async input => {
    asked.push(new URL(String(input), 'http://fanfare.test').searchParams.get('ids')!);
    return Response.json(asked.at(-1) === 'A' ? { items: [item('A', 'y')], missing: [] } : { items: [], missing: [asked.at(-1)] });
  };
  const fanfare = new Fanfare({ baseUrl: '', fetch: fake });
  let items: HomeItem[] = [{ ...item('R'), repost: item('A') }, { ...item('Q'), quote: item('A') }, { ...item('S'), repost: item('B') }];
  for (const id of ['A', 'B', 'C']) items = await renewed(fanfare, items, id);
  assert.deepEqual(items.map(({ post, repost, quote }) => [post.id, (repost ?? quote)!.post.text]), [['R', 'y'], ['Q', 'y'], ['S', 'x']]);
  assert.deepEqual(asked, ['A', 'B'], 'the page does not show the third one');
  [items[0]] = await renewed(fanfare, [{ ...item('Q'), quote: item('A') }], 'A') as [HomeItem];
  assert.equal(items[0].quote!.post.text, 'y', 'a page may show the post only in a quote');
  [items[0]] = await renewed(fanfare, [item('A')], 'A') as [HomeItem];
  assert.equal(items[0].post.text, 'y', 'or only as itself');
});

test('a post with an end leaves the page at its end', () => {
  mock.timers.enable({ apis: ['Date'], now: Date.parse('2026-01-01T00:00:00Z') });
  try {
    const items = [item('B', 'x', '2026-01-01T00:00:05Z'), item('A')];
    assert.equal(untilEnd(items), 5000);
    assert.deepEqual(ids(living(items)), ['B', 'A']);
    mock.timers.tick(5000);
    assert.deepEqual(ids(living(items)), ['A']);
    assert.equal(untilEnd(items), 0);
    for (const event of [{ event: 'stale' }, { event: 'entry', item: item('A') }, { event: 'edited', item: item('A') }, { event: 'deleted', post_id: 'C' }, { event: 'likes', likes: { post_id: 'A', count: 1 } }]) {
      assert.deepEqual(ids(applied(items, event as LiveEvent)), ['A'], event.event);
    }
    mock.timers.tick(1);
    assert.equal(untilEnd(items), 0, 'never below zero');
    assert.equal(untilEnd(living(items)), undefined);
    assert.equal(untilEnd([item('C', 'x', '2026-03-01T00:00:00Z')]), 2 ** 31 - 1, 'a longer timer ends at once');
  } finally {
    mock.timers.reset();
  }
});

test('a page that is read again keeps what exists, and only that', async () => {
  const asked: string[] = [];
  const fake: typeof fetch = async input => {
    const url = new URL(String(input), 'http://fanfare.test'), shown = url.searchParams.get('ids')?.split(',');
    asked.push(url.pathname + url.search);
    const body = shown ? { items: shown.filter(id => id !== '010').slice(0, 60).map(id => item(id, 'new')), missing: [], rest: shown.slice(60) }
      : { items: [item('300', 'new'), item('200', 'new')], next_cursor: 'c' };
    return Response.json(body);
  };
  const fanfare = new Fanfare({ baseUrl: 'http://fanfare.test', fetch: fake });
  const older = Array.from({ length: 120 }, (_, i) => item(String(119 - i).padStart(3, '0')));
  const items = await reread(fanfare, [item('400'), item('250'), item('200'), ...older]);
  assert.deepEqual(ids(items).sort(), ['200', '300', ...ids(older).filter(id => id !== '010').sort()].sort());
  assert.ok(items.every(({ post }) => post.text === 'new'));
  assert.equal(asked[0], '/v1/home?expand=view&limit=100');
  assert.equal(asked.length, 3);
});

test('a whole home has no older posts', async () => {
  let asked = '';
  const fake: typeof fetch = async input => {
    asked = String(input);
    return Response.json({ items: [item('300')] });
  };
  const fanfare = new Fanfare({ baseUrl: 'http://fanfare.test', fetch: fake });
  assert.deepEqual(ids(await reread(fanfare, [item('300'), item('200')])), ['300'], 'the author of 200 was unfollowed');
  assert.equal(asked, 'http://fanfare.test/v1/home?expand=view&limit=20', 'a page with few posts may have more now');
});

test('a signal ends the calls for a page', async () => {
  const shown = [item('200')];
  for (const [part, act] of Object.entries({
    '/v1/home': (f: Fanfare, end: AbortSignal) => reread(f, [], end),
    '/v1/posts': (f: Fanfare, end: AbortSignal) => reread(f, shown, end),
    'ids=200': (f: Fanfare, end: AbortSignal) => renewed(f, shown, '200', end),
  })) {
    const end = new AbortController();
    const fake: typeof fetch = async (input, init) => {
      if (String(input).includes(part)) {
        end.abort();
        init!.signal?.throwIfAborted();
      }
      return Response.json(String(input).includes('ids=') ? { items: [], missing: [] } : { items: [item('300')], next_cursor: 'c' });
    };
    await assert.rejects(act(new Fanfare({ baseUrl: 'http://fanfare.test', fetch: fake }), end.signal), part);
  }
});

test('an open page follows a deletion and an edit, also during a break', async () => {
  const { fanfare } = await newUser();
  const post = async (text: string) => (await fanfare.post('/v1/posts', { body: { text } })).id;
  const [deleted, edited, gone, changed] = [await post('1'), await post('2'), await post('3'), await post('4')];
  const first = fanfare.live();
  await next(first, 'open');
  let items = await reread(fanfare, []);
  assert.deepEqual(ids(items), [changed, gone, edited, deleted]);
  await fanfare.patch('/v1/posts/{id}', { path: { id: edited }, body: { text: 'two' } });
  items = applied(items, await next(first, 'edited'));
  await fanfare.delete('/v1/posts/{id}', { path: { id: deleted } });
  items = applied(items, await next(first, 'deleted'));
  await first.return();
  await fanfare.delete('/v1/posts/{id}', { path: { id: gone } });
  await fanfare.patch('/v1/posts/{id}', { path: { id: changed }, body: { text: 'four' } });
  const second = fanfare.live();
  await next(second, 'open');
  items = await reread(fanfare, items);
  await second.return();
  assert.deepEqual(items.map(({ post }) => post.text), ['four', 'two']);
});
