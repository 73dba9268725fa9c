import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Fanfare, Problem } from '../src/index.js';
import { baseUrl, newUser, until } from './service.js';

test('a post keeps kind, data and mentions', async () => {
  const [ann, bob] = [await newUser(), await newUser()];
  const data = { photos: 2, cover: { x: 1.5 } };
  const post = await ann.fanfare.post('/v1/posts', { body: { text: 'Look', kind: 'album', data, mentions: [bob.id] } });
  assert.deepEqual([post.kind, post.data, post.mentions], ['album', data, [bob.id]]);
  const edited = await ann.fanfare.patch('/v1/posts/{id}', { path: { id: post.id }, body: { text: 'Look!', data: null } });
  assert.deepEqual([edited.text, edited.data], ['Look!', undefined]);
  const view = await bob.fanfare.get('/v1/posts/{id}', { path: { id: post.id }, query: { expand: 'view' } });
  assert.ok('post' in view);
  assert.equal(view.author.name, ann.id.toUpperCase());
  const several = await bob.fanfare.get('/v1/posts', { query: { ids: [post.id, '01JZ0000000000000000000000'] } });
  assert.deepEqual(several.items.map(v => v.post.id), [post.id]);
  assert.equal(await ann.fanfare.delete('/v1/posts/{id}', { path: { id: post.id } }), undefined);
});

test('a refusal is a problem that names each field', async () => {
  const { fanfare } = await newUser();
  const refused = (status: number, type: string) => (error: unknown) => error instanceof Problem && error.status === status && error.type === type;
  await assert.rejects(fanfare.post('/v1/posts', { body: { text: 'x'.repeat(5001), kind: 'Not a kind' } }), (error: Problem) => {
    assert.deepEqual(error.errors.map(e => e.field).sort(), ['kind', 'text']);
    return refused(422, 'invalid')(error);
  });
  await assert.rejects(fanfare.get('/v1/users/{id}', { path: { id: 'no-one' } }), refused(404, 'not-found'));
  await assert.rejects(fanfare.get('/v1/users/{id}', { path: { id: 'a/b' } }), refused(422, 'invalid'));
  await assert.rejects(new Fanfare({ baseUrl, token: 'wrong' }).get('/v1/me'), (error: Problem) => error.status === 401);
});

test('a token is asked for at each call', async () => {
  const { id } = await newUser();
  let asked = 0;
  const fanfare = new Fanfare({
    baseUrl: `${baseUrl}/`,
    token: async () => {
      asked++;
      return (await new Fanfare({ baseUrl }).post('/v1/dev/token', { body: { user_id: id } })).token;
    },
  });
  assert.equal((await fanfare.get('/v1/me')).id, id);
  assert.equal((await fanfare.get('/v1/me')).id, id);
  assert.equal(asked, 2);
});

test('reactions are counted by kind', async () => {
  const [ann, bob] = [await newUser(), await newUser()];
  const path = { id: (await ann.fanfare.post('/v1/posts', { body: { text: 'Hi' } })).id };
  assert.equal(await ann.fanfare.put('/v1/posts/{id}/like', { path }), undefined);
  await bob.fanfare.put('/v1/posts/{id}/reactions/{kind}', { path: { ...path, kind: 'love' } });
  const counts = () => ann.fanfare.get('/v1/posts/{id}/reactions/count', { path });
  await until(counts, ({ counts }) => counts.like === 1 && counts.love === 1);
  await bob.fanfare.delete('/v1/posts/{id}/reactions/{kind}', { path: { ...path, kind: 'love' } });
  await until(counts, ({ counts }) => counts.like === 1 && !counts.love);
});

test('notifications are listed, counted and marked as read', async () => {
  const [ann, bob] = [await newUser(), await newUser()];
  const { id } = await ann.fanfare.post('/v1/posts', { body: { text: 'Hi' } });
  await bob.fanfare.put('/v1/posts/{id}/like', { path: { id } });
  const page = await until(() => ann.fanfare.get('/v1/me/notifications', { query: { expand: 'view' } }), ({ items }) => items.length === 1);
  const [first] = page.items;
  assert.deepEqual([first?.id, first?.actors[0]?.user?.name, first?.post?.post.text, page.unread], [`like:${id}`, bob.id.toUpperCase(), 'Hi', 1]);
  assert.deepEqual(await ann.fanfare.put('/v1/me/notifications/read', { body: { read_to: page.read_to } }), { unread: 0 });
  assert.deepEqual(await ann.fanfare.get('/v1/me/notifications/unread', { query: { most: 5 } }), { unread: 0, most: 5 });
});

test('bookmarks and markers are kept, and all pages of a list are read', async () => {
  const { fanfare } = await newUser();
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) {
    const { id } = await fanfare.post('/v1/posts', { body: { text: `Post ${i}` } });
    await fanfare.put('/v1/me/bookmarks/{id}', { path: { id } });
    ids.push(id);
  }
  const listed: string[] = [];
  for await (const mark of fanfare.all('/v1/me/bookmarks', { query: { limit: 2 } })) {
    assert.ok('post_id' in mark);
    listed.push(mark.post_id);
  }
  assert.deepEqual(listed.sort(), ids.sort());
  const marker = await fanfare.put('/v1/me/markers/{name}', { path: { name: 'home' }, body: { position: ids[0]! } });
  assert.deepEqual(await fanfare.get('/v1/me/markers/{name}', { path: { name: 'home' } }), marker);
});
