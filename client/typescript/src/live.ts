import { NoAnswer, Problem } from './problem.js';
import type { Schemas } from './types.js';
import { backoff, sleep } from './wait.js';

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
  | { event: 'open' } // the stream sends all events from now on
  | { event: 'interrupted'; error: unknown } // live opens a new connection
  | { event: 'entry'; item: Schemas['HomeItem']; place: string }
  | { event: 'likes'; likes: LikesChange; place: string }
  | { event: 'notifications'; unread: number; place: string };

type Connect = (place: string, quiet: AbortSignal) => Promise<Response>;

// silence is the time without a sign of life after which a stream counts as dead. The service sends a
// sign of life every 15 seconds.
const silence = 40_000;

// mostLate is longer than the time for which an API process shares an old list with new streams, and
// maxEvent bounds the size of an event.
const mostLate = 10_000, maxEvent = 1 << 20;

// live asks all machines before a wait.
export async function* live(connect: Connect, ended: AbortSignal, last: string | undefined, machines: number): AsyncGenerator<LiveEvent, void, void> {
  const resume = new Resume(last ?? '');
  for (let failures = 0, wait = 0; !ended.aborted; ) {
    const quiet = new AbortController();
    try {
      const response = await awake(quiet, connect(resume.place, quiet.signal));
      resume.opened();
      yield { event: 'open' };
      for await (const block of blocks(response, quiet)) {
        failures = 0;
        const event = resume.take(block);
        if (event) yield event;
      }
      throw new NoAnswer('the stream ended');
    } catch (error) {
      if (ended.aborted) return;
      if (error instanceof Problem && ![429, 502, 503, 504].includes(error.status)) throw error;
      if (error instanceof Problem) wait = Math.max(wait, error.retryAfter * 1000);
      yield { event: 'interrupted', error };
    } finally {
      quiet.abort(); // also if the caller ends the loop
    }
    if (++failures % machines) continue;
    await sleep(Math.max(wait, backoff(failures)), ended).catch(() => {});
    wait = 0;
  }
}

// Block has the fields of the lines up to an empty line.
type Block = Map<string, string>;

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
        return { event: 'entry', item: JSON.parse(data), place: this.place };
      case 'likes':
        return { event: 'likes', likes: JSON.parse(data), place: this.place };
      case 'notifications':
        return { event: 'notifications', unread: JSON.parse(data).unread, place: this.place };
      default:
        return undefined; // a newer service may send other events
    }
  }
}

async function* blocks(response: Response, quiet: AbortController): AsyncGenerator<Block, void, void> {
  const reader = response.body!.getReader(), decoder = new TextDecoder();
  for (let rest = ''; ; ) {
    const { done, value } = await awake(quiet, reader.read());
    if (done) return;
    const parts = (rest + decoder.decode(value, { stream: true })).split('\n\n');
    rest = parts.pop()!;
    if (rest.length > maxEvent) throw new NoAnswer(`an event is larger than ${maxEvent} characters`);
    yield* parts.map(fields);
  }
}

function fields(part: string): Block {
  const block: Block = new Map();
  for (const line of part.split('\n')) {
    const colon = line.indexOf(':');
    if (colon > 0) block.set(line.slice(0, colon), line.slice(colon + 1).replace(/^ /, ''));
  }
  return block;
}

// awake waits for a sign of life, for silence at most. The time in which the caller handles an event does
// not count.
async function awake<T>(quiet: AbortController, sign: Promise<T>): Promise<T> {
  const timer = setTimeout(() => quiet.abort(new NoAnswer('the stream is silent')), silence);
  try {
    return await sign;
  } finally {
    clearTimeout(timer);
  }
}
