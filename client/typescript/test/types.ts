import type { Fanfare } from '../src/index.js';

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
  ];
}
