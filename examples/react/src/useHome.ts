import { applied, living, reread, untilEnd, type Fanfare, type LiveEvent, type PageItem } from 'fanfare-client';
import { useEffect, useReducer, useRef } from 'react';

type Change = LiveEvent | { event: 'connecting' } | { event: 'refused' | 'failed'; error: unknown }
  | { event: 'page'; items: PageItem[] } | { event: 'ended' } | { event: 'liked'; id: string; liked: boolean };

interface Home {
  of?: Fanfare;
  state: string;
  error?: unknown;
  items: PageItem[]; // newest first, each post once
  unread?: number; // undefined if notifications are off
}

function next(home: Home, { of, change }: { of: Fanfare; change: Change }): Home {
  if (change.event === 'connecting') return { of, state: change.event, items: [] };
  if (of !== home.of) return home; // the change is late: it belongs to the previous user
  switch (change.event) {
    case 'open': return { ...home, state: 'live', error: undefined };
    case 'interrupted': case 'refused': return { ...home, state: change.event, error: change.error };
    case 'failed': return { ...home, error: change.error };
    case 'page': return { ...home, items: change.items };
    case 'ended': return { ...home, items: living(home.items) };
    case 'liked': return { ...home, items: home.items.map(item => (item.post.id === change.id ? { ...item, liked: change.liked } : item)) };
    case 'notifications': return { ...home, unread: change.unread };
    default: return { ...home, items: applied(home.items, change) };
  }
}

// useHome reads the home of a user and listens to it while the component is shown.
export function useHome(fanfare: Fanfare | undefined) {
  const [home, dispatch] = useReducer(next, { state: '', items: [] });
  const shown = useRef(home.items);
  shown.current = home.items;
  useEffect(() => {
    if (!fanfare) return;
    const ended = new AbortController(), { signal } = ended;
    const tell = (change: Change) => { if (!signal.aborted) dispatch({ of: fanfare, change }); };
    const listen = async () => {
      for await (const event of fanfare.live({ signal })) {
        tell(event);
        if (event.event !== 'open' && event.event !== 'stale') continue;
        // The stream is open, so each change is in this list or arrives by the stream.
        await reread(fanfare, shown.current, signal).then(items => tell({ event: 'page', items }), error => tell({ event: 'failed', error }));
      }
    };
    tell({ event: 'connecting' });
    listen().catch(error => tell({ event: 'refused', error }));
    return () => ended.abort();
  }, [fanfare]);

  useEffect(() => {
    const wait = untilEnd(home.items);
    if (wait === undefined) return;
    const timer = setTimeout(() => dispatch({ of: home.of!, change: { event: 'ended' } }), wait);
    return () => clearTimeout(timer);
  }, [home.items, home.of]);

  // A like is an event: the answer means that the event is durable, and the count follows by the stream.
  const like = (of: Fanfare, { post: { id }, liked }: PageItem) => {
    const tell = (change: Change) => dispatch({ of, change });
    tell({ event: 'liked', id, liked: !liked });
    const answer = liked ? of.delete('/v1/posts/{id}/like', { path: { id } }) : of.put('/v1/posts/{id}/like', { path: { id } });
    answer.catch(error => { tell({ event: 'liked', id, liked }); tell({ event: 'failed', error }); });
  };
  return { ...home, like };
}
