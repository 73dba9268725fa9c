import type { Fanfare, LiveEvent, Schemas } from 'fanfare-client';
import { useEffect, useReducer } from 'react';

type Item = Schemas['HomeItem'];
type Change = LiveEvent | { event: 'connecting' } | { event: 'refused' | 'failed'; error: unknown }
  | { event: 'page'; items: Item[] } | { event: 'liked'; id: string; liked: boolean };

interface Home {
  of?: Fanfare;
  state: string;
  error?: unknown;
  items: Item[]; // newest first, each post once
  counts: Record<string, number>; // of likes, since the stream is open; a count may arrive before its post
  unread?: number; // undefined if notifications are off
}

function next(home: Home, { of, change }: { of: Fanfare; change: Change }): Home {
  if (change.event === 'connecting') return { of, state: change.event, items: [], counts: {} };
  if (of !== home.of) return home; // the change is late: it belongs to the previous user
  switch (change.event) {
    case 'open': return { ...home, state: 'live', error: undefined, counts: {} };
    case 'interrupted': case 'refused': return { ...home, state: change.event, error: change.error };
    case 'failed': return { ...home, error: change.error };
    case 'page': return change.items.reduce(placed, home);
    case 'entry': return placed(home, change.item);
    case 'likes': return edited({ ...home, counts: { ...home.counts, [change.likes.post_id]: change.likes.count } }, change.likes.post_id, { like_count: change.likes.count });
    case 'liked': return edited(home, change.id, { liked: change.liked });
    case 'notifications': return { ...home, unread: change.unread };
  }
}

// Posts may arrive in any order, by the stream and by the list.
function placed(home: Home, item: Item): Home {
  const { id } = item.post, shown = { ...item, like_count: home.counts[id] ?? item.like_count };
  return { ...home, items: [...home.items.filter(({ post }) => post.id > id), shown, ...home.items.filter(({ post }) => post.id < id)] };
}

function edited(home: Home, id: string, part: Partial<Item>): Home {
  return { ...home, items: home.items.map(item => (item.post.id === id ? { ...item, ...part } : item)) };
}

// useHome reads the home of a user and listens to it while the component is shown.
export function useHome(fanfare: Fanfare | undefined) {
  const [home, dispatch] = useReducer(next, { state: '', items: [], counts: {} });
  useEffect(() => {
    if (!fanfare) return;
    const ended = new AbortController(), { signal } = ended;
    const tell = (change: Change) => { if (!signal.aborted) dispatch({ of: fanfare, change }); };
    const listen = async () => {
      for await (const event of fanfare.live({ signal })) {
        tell(event);
        // The stream is open, so each post is in this list or arrives by the stream.
        if (event.event === 'open') fanfare.get('/v1/home', { signal }).then(({ items }) => tell({ event: 'page', items }), error => tell({ event: 'failed', error }));
      }
    };
    tell({ event: 'connecting' });
    listen().catch(error => tell({ event: 'refused', error }));
    return () => ended.abort();
  }, [fanfare]);

  // A like is an event: the answer means that the event is durable, and the count follows by the stream.
  const like = (of: Fanfare, { post: { id }, liked }: Item) => {
    const tell = (change: Change) => dispatch({ of, change });
    tell({ event: 'liked', id, liked: !liked });
    const answer = liked ? of.delete('/v1/posts/{id}/like', { path: { id } }) : of.put('/v1/posts/{id}/like', { path: { id } });
    answer.catch(error => { tell({ event: 'liked', id, liked }); tell({ event: 'failed', error }); });
  };
  return { ...home, like };
}
