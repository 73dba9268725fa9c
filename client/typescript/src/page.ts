import type { Fanfare } from './client.js';
import type { LiveEvent } from './live.js';
import type { Schemas } from './types.js';

type HomeItem = Schemas['HomeItem'];

// PageItem is an item of a page that follows the stream. An item that came by the stream, and was not read again, has
// no bookmarked and no reposted.
export type PageItem = HomeItem & Partial<Pick<Schemas['PostView'], 'bookmarked' | 'reposted'>>;

// most bounds the items of one call.
const most = 100;

// reread returns the items of a page of the home as they are now, newest first: the newest posts of the home, and
// the older ones among the shown items that still exist. Call it at each event open and stale, before you take the next event from the loop.
export async function reread(fanfare: Fanfare, shown: readonly PageItem[], signal?: AbortSignal): Promise<PageItem[]> {
  const page = await fanfare.get('/v1/home', { query: { expand: 'view', limit: Math.min(most, Math.max(20, shown.length)) }, signal });
  const last = page.items.at(-1)?.post.id ?? '', items: PageItem[] = [...page.items];
  let older = page.next_cursor ? shown.map(({ post }) => post.id).filter(id => id < last) : [];
  while (older.length) {
    const ids = older.slice(0, most), found = await fanfare.get('/v1/posts', { query: { ids }, signal });
    items.push(...found.items);
    older = [...(found.rest ?? []), ...older.slice(most)];
  }
  return living(items);
}

// renewed returns the items of a page after an event changed: it reads the post if the page shows the post.
export async function renewed(fanfare: Fanfare, items: readonly PageItem[], post_id: string, signal?: AbortSignal): Promise<PageItem[]> {
  if (!items.some(({ post, repost, quote }) => [post, repost?.post, quote?.post].some(shown => shown?.id === post_id))) return living(items);
  const { items: [item] } = await fanfare.get('/v1/posts', { query: { ids: [post_id] }, signal });
  return item ? changed(items, post_id, item) : living(items);
}

// applied returns the items of a page, newest first, after an event of the stream. Posts come in any order. An event of a
// post also changes the items that refer to the post: its reposts, and its quotes.
export function applied(items: readonly PageItem[], event: LiveEvent): PageItem[] {
  switch (event.event) {
    case 'entry': {
      const { id } = event.item.post, known = items.find(({ post }) => post.id === id);
      return living([...items.filter(({ post }) => post.id > id), { ...known, ...event.item }, ...items.filter(({ post }) => post.id < id)]);
    }
    case 'edited':
      return changed(items, event.item.post.id, event.item);
    case 'deleted':
      return living(items.filter(({ post, repost }) => post.id !== event.post_id && repost?.post.id !== event.post_id))
        .map(({ quote, ...item }) => (quote && quote.post.id !== event.post_id ? { ...item, quote } : item));
    case 'likes': {
      const { post_id, count, reactions } = event.likes;
      return changed(items, post_id, { like_count: count, ...(reactions && { reactions }) });
    }
    default:
      return living(items);
  }
}

// changed returns the items after a change of a post. An item inside another one shows no quoted post.
function changed(items: readonly PageItem[], id: string, change: Partial<PageItem>): PageItem[] {
  const { quote: _, ...inner } = change;
  const apply = (item: PageItem): PageItem => ({
    ...item, ...(item.post.id === id && change), ...(item.repost?.post.id === id && { repost: { ...item.repost, ...inner } }),
    ...(item.quote?.post.id === id && { quote: { ...item.quote, ...inner } }),
  });
  return living(items.map(apply));
}

// living returns the items whose posts have not ended. No event tells the end of a post.
export function living(items: readonly PageItem[]): PageItem[] {
  return items.filter(({ post }) => !(end(post) <= Date.now()));
}

// untilEnd returns the milliseconds until the next post of a page ends, for setTimeout; then call living.
// undefined means that no post ends.
export function untilEnd(items: readonly PageItem[]): number | undefined {
  const ends = items.map(({ post }) => end(post)).filter(at => !Number.isNaN(at));
  return ends.length ? Math.max(0, Math.min(Math.min(...ends) - Date.now(), 2 ** 31 - 1)) : undefined;
}

function end({ expires_at }: Schemas['Post']): number {
  return expires_at ? Date.parse(expires_at) : NaN;
}
