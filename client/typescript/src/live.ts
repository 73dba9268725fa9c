import { NoAnswer, Problem } from './problem.js';
import type { Schemas } from './types.js';
import { backoff, sleep } from './wait.js';

// LikesChange is the counts of one of the newest 20 posts. reactions has all kinds, where some are configured.
export interface LikesChange {
  post_id: string;
  count: number;
  reactions?: Record<string, number>;
}

// A LiveEvent is an event of a home, or the state of the connection. live continues at a place what another
// live began.
export type LiveEvent =
  | { event: 'open' } // what happens from now on comes by the stream
  | { event: 'interrupted'; error: unknown } // it connects again
  | { event: 'entry'; item: Schemas['HomeItem']; place: string }
  | { event: 'likes'; likes: LikesChange; place: string }
  | { event: 'notifications'; unread: number; place: string };

type Connect = (place: string, quiet: AbortSignal) => Promise<Response>;

// The service sends a sign of life every 15 seconds. A stream without one for longer than silence is dead.
const silence = 40_000;

// mostLate is longer than an API shares lists with new streams, and maxEvent bounds an event.
const mostLate = 10_000, maxEvent = 1 << 20;

export async function* live(connect: Connect, ended: AbortSignal, last = ''): AsyncGenerator<LiveEvent, void, void> {
  const resume = new Resume(last);
  for (let failures = 0; !ended.aborted; ) {
    const quiet = new AbortController();
    let wait = 0;
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
      wait = error instanceof Problem ? error.retryAfter * 1000 : 0;
      yield { event: 'interrupted', error };
    } finally {
      quiet.abort(); // also where the loop of the caller ends
    }
    failures++;
    await sleep(Math.max(wait, backoff(failures)), ended).catch(() => {});
  }
}

// A block is the fields of the lines up to an empty one.
type Block = Map<string, string>;

// Resume is the state between two connections.
class Resume {
  place: string;
  // #since are the posts after place. A new connection repeats them: behind that place, or, if its process
  // read some lists before, behind a place that it sends soon.
  #since = new Set<string>();
  #opened = 0;

  constructor(last: string) {
    this.place = last;
  }

  opened() {
    this.#opened = Date.now();
  }

  // take returns the event of a block, undefined if the block has nothing new.
  take(block: Block): LiveEvent | undefined {
    const id = block.get('id') ?? '', data = block.get('data');
    if (data === undefined) { // a comment, or a place
      if (id && Date.now() - this.#opened > mostLate) this.#since.clear();
      if (id) this.place = id;
      return undefined;
    }
    switch (block.get('event')) {
      case 'entry':
        if (this.#since.has(id)) return undefined;
        this.#since.add(id);
        this.place ||= id;
        return { event: 'entry', item: JSON.parse(data), place: this.place };
      case 'likes':
        return { event: 'likes', likes: JSON.parse(data), place: this.place };
      case 'notifications':
        return { event: 'notifications', unread: JSON.parse(data).unread, place: this.place };
      default:
        return undefined; // of a newer service
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

// awake waits for a sign of life. The time in which the caller handles an event does not count.
async function awake<T>(quiet: AbortController, sign: Promise<T>): Promise<T> {
  const timer = setTimeout(() => quiet.abort(new NoAnswer('the stream is silent')), silence);
  try {
    return await sign;
  } finally {
    clearTimeout(timer);
  }
}
