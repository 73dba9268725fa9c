import { reread, type Fanfare } from '../src/index.js';

// The build fails if the compiler accepts one of these calls.
export function wrong(fanfare: Fanfare) {
  const path = { id: '01JZ0000000000000000000000' };
  return [
    // @ts-expect-error no such path
    () => fanfare.get('/v1/nothing'),
    // @ts-expect-error no such method
    () => fanfare.delete('/v1/home'),
    // @ts-expect-error no id
    () => fanfare.put('/v1/posts/{id}/like'),
    // @ts-expect-error no text
    () => fanfare.post('/v1/posts/{id}/comments', { path, body: { data: {} } }),
    // @ts-expect-error an unknown field
    () => fanfare.post('/v1/posts', { body: { text: 'Hi', colour: 'red' } }),
    // @ts-expect-error this call takes no key
    () => fanfare.post('/v1/posts/{id}/comments', { path, body: { text: 'Hi' }, key: 'mine' }),
    // @ts-expect-error no list
    () => fanfare.all('/v1/me'),
    // @ts-expect-error no such field
    async () => (await fanfare.get('/v1/posts/{id}/likes/count', { path })).likes,
    // @ts-expect-error only expand=view has it
    async () => (await fanfare.get('/v1/home')).items.map(item => item.bookmarked),
    // @ts-expect-error an unknown parameter beside expand
    () => fanfare.get('/v1/home', { query: { expand: 'view', colour: 'red' } }),
  ];
}

// The build fails if the compiler refuses one of these calls: expand=view decides on the form of the answer.
export function views(fanfare: Fanfare) {
  const path = { id: '01JZ0000000000000000000000' }, query = { expand: 'view' } as const;
  return [
    async () => (await fanfare.get('/v1/home', { query })).items.map(item => item.bookmarked),
    async () => (await fanfare.get('/v1/posts/{id}', { path, query })).bookmarked,
    async () => (await fanfare.get('/v1/me/bookmarks', { query: { expand: 'view' } })).items.map(item => item.post.text),
    async () => { for await (const item of fanfare.all('/v1/users/{id}/likes', { path, query })) if (item.reposted) return; },
    async () => (await fanfare.get('/v1/me/notifications', { query })).items.map(({ unread }) => unread),
    async () => (await fanfare.get('/v1/posts/{id}', { path })).text,
    async () => { for await (const post of fanfare.all('/v1/users/{id}/posts', { path, query: { limit: 5 } })) if (post.text) return; },
    async (expand?: 'view') => (await fanfare.get('/v1/home', { query: { ...(expand && { expand }) } })).items.length,
    async () => (await reread(fanfare, [])).map(item => item.bookmarked),
  ];
}
