import { isRefusal, NoAnswer, objectOf, Problem } from './answer.js';
import { blocks, type Block } from './events.js';
import type { Schemas } from './types.js';
import { backoff, joined, sleep, type Joined } from './wait.js';

// LikesChange has the counts of one of the newest 20 posts. reactions has the counts of all kinds, if
// kinds other than like are configured.
export interface LikesChange {
  post_id: string;
  count: number;
  reactions?: Record<string, number>;
}

// LiveEvent is an event of a home, or the state of the connection. The place of one live lets another
// live continue.
export type LiveEvent =
  | { event: 'open' } // the stream sends all events from now on: read the page, see reread
  | { event: 'interrupted'; error: unknown } // live opens a new connection
  | { event: 'entry'; item: Schemas['HomeItem']; place: string }
  | { event: 'edited'; item: Schemas['HomeItem']; place: string } // replace the post if the page shows it
  | { event: 'deleted'; post_id: string; place: string } // may come twice
  | { event: 'changed'; post_id: string; place: string } // edited: if the page shows it in a repost or a quote, see renewed
  | { event: 'stale'; place: string } // events were lost: read the page again, as after open
  | { event: 'likes'; likes: LikesChange; place: string }
  | { event: 'notifications'; unread: number; place: string };

// Connect prepares a request for the events after place, and returns a function that sends the request. An error of
// Connect means that no request can be sent.
type Connect = (place: string) => Promise<(quiet: AbortSignal) => Promise<Response>>;

// silence is the time without a sign of life after which a stream counts as dead. The service sends a
// sign of life every 15 seconds.
const silence = 40_000;

// mostLate is longer than the time for which an API process shares an old list with new streams. A connection
// that lasted for stable ends the series of failures: a shorter connection may be a proxy that cuts every answer.
const mostLate = 10_000, stable = 5_000;

// live asks all machines before a wait.
export async function* live(connect: Connect, ends: (AbortSignal | undefined)[], last: string | undefined, machines: number): AsyncGenerator<LiveEvent, void, void> {
  const resume = new Resume(last ?? ''), ended = joined(...ends);
  try {
    for (let failures = 0, wait = 0; !ended.signal.aborted; ) {
      const send = await connect(resume.place).catch((error: unknown) => {
        if (!ended.signal.aborted) throw error;
      });
      if (!send) return;
      const quiet = joined(ended.signal);
      let opened = Infinity;
      try {
        const response = await awake(quiet, send(quiet.signal));
        opened = Date.now();
        resume.opened();
        yield { event: 'open' };
        for await (const block of blocks(response, read => awake(quiet, read))) {
          const event = resume.take(block);
          if (event) yield event;
        }
        throw new NoAnswer('the stream ended');
      } catch (error) {
        if (ended.signal.aborted) return;
        if (isRefusal(error)) throw error;
        if (error instanceof Problem) wait = Math.max(wait, error.retryAfter * 1000);
        yield { event: 'interrupted', error };
      } finally {
        quiet.abort(); // also if the caller ends the loop
        quiet.release();
      }
      if (Date.now() - opened >= stable) failures = 0;
      if (++failures % machines) continue;
      await sleep(Math.max(wait, backoff(failures)), ended.signal).catch(() => {});
      wait = 0;
    }
  } finally {
    ended.release();
  }
}

// Resume is the state of live between two connections.
class Resume {
  place: string;
  // #since has the posts after place. A new connection sends these posts again. It sends them after
  // place, or after a place that it sends soon, if its process has read some lists earlier.
  #since = new Set<string>();
  // #behind is the time at which the connection began, or last sent a post again. A slow process sends
  // places in the middle of the posts that it sends again.
  #behind = 0;

  constructor(last: string) {
    this.place = last;
  }

  opened() {
    this.#behind = Date.now();
  }

  // take returns the event of a block, or undefined if the block has nothing new.
  take(block: Block): LiveEvent | undefined {
    const id = block.get('id') ?? '', data = block.get('data');
    if (data === undefined) { // the block is a comment, or a place
      if (id && Date.now() - this.#behind > mostLate) this.#since.clear();
      if (id) this.place = id;
      return undefined;
    }
    switch (block.get('event')) {
      case 'entry':
        if (this.#since.has(id)) {
          this.#behind = Date.now();
          return undefined;
        }
        this.#since.add(id);
        this.place ||= id;
        return { event: 'entry', item: decoded(data), place: this.place };
      case 'edited':
        return { event: 'edited', item: decoded(data), place: this.place };
      case 'deleted':
        return { event: 'deleted', post_id: decoded<{ post_id: string }>(data).post_id, place: this.place };
      case 'changed':
        return { event: 'changed', post_id: decoded<{ post_id: string }>(data).post_id, place: this.place };
      case 'stale':
        return { event: 'stale', place: this.place };
      case 'likes':
        return { event: 'likes', likes: decoded(data), place: this.place };
      case 'notifications':
        return { event: 'notifications', unread: decoded<{ unread: number }>(data).unread, place: this.place };
      default:
        return undefined; // a newer service may send other events
    }
  }
}

function decoded<T>(data: string): T {
  const value = objectOf(data);
  if (!value) throw new NoAnswer('an event of the stream is damaged');
  return value as T;
}

// awake waits for a sign of life, for silence at most. The time in which the caller handles an event does
// not count.
async function awake<T>(quiet: Joined, sign: Promise<T>): Promise<T> {
  const timer = setTimeout(() => quiet.abort(new NoAnswer('the stream is silent')), silence);
  try {
    return await sign;
  } finally {
    clearTimeout(timer);
  }
}
