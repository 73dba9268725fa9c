// The tests call the API at FANFARE_URL. The Go tests in e2e start this API.
import { mock } from 'node:test';

import { Fanfare, type LiveEvent, type Options } from '../src/index.js';

export const baseUrl = process.env.FANFARE_URL!;

let users = 0;

// newUser makes a user with a profile, and returns the user's id and token, and a client of the user.
export async function newUser(options: Partial<Options> = {}) {
  const id = `ts-${process.pid}-${users++}`;
  const { token } = await new Fanfare({ baseUrl }).post('/v1/dev/token', { body: { user_id: id } });
  const fanfare = new Fanfare({ baseUrl, token, ...options });
  await new Fanfare({ baseUrl, token }).put('/v1/me', { body: { name: id.toUpperCase() } });
  return { id, token, fanfare };
}

// until repeats a read until a condition is true.
export async function until<T>(read: () => Promise<T>, holds: (value: T) => boolean): Promise<T> {
  for (const end = Date.now() + 60_000; Date.now() < end; ) {
    const value = await read();
    if (holds(value)) return value;
    await new Promise(done => setTimeout(done, 20));
  }
  throw new Error(`not within a minute: ${holds.toString()}`);
}

// next returns the next event of a kind.
export async function next<K extends LiveEvent['event']>(stream: AsyncGenerator<LiveEvent, void, void>, kind: K): Promise<LiveEvent & { event: K }> {
  for (;;) {
    const { value, done } = await stream.next();
    if (done) throw new Error('the stream ended');
    if (value.event === kind) return value as LiveEvent & { event: K };
  }
}

// inVirtualTime runs act, whose timers fire without waiting. It returns the result of act, and the
// milliseconds that passed. No time passes while busy returns true.
export async function inVirtualTime<T>(act: () => Promise<T>, busy = () => false): Promise<[T, number]> {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  try {
    let ended = false;
    const result = act().finally(() => { ended = true; });
    result.catch(() => {});
    while (!ended) {
      await new Promise(done => setImmediate(done));
      if (!ended && !busy()) mock.timers.tick(50);
    }
    return [await result, Date.now()];
  } finally {
    mock.timers.reset();
  }
}

// answers returns a fetch that gives one answer after another, and the requests that the fetch received.
// null means no answer.
export function answers(...all: (Response | null)[]) {
  const requests: { url: string; method: string; headers: Record<string, string>; at: number }[] = [];
  const fake: typeof fetch = async (input, init) => {
    requests.push({ url: String(input), method: init!.method!, headers: init!.headers as Record<string, string>, at: Date.now() });
    const answer = all.shift();
    if (!answer) throw new TypeError('fetch failed');
    return answer;
  };
  return { requests, fetch: fake };
}

export function problem(status: number, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify({ type: 'busy', title: 'Busy', status, detail: 'try again' }),
    { status, headers: { 'Content-Type': 'application/problem+json', ...headers } });
}
