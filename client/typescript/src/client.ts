import { live, type LiveEvent } from './live.js';
import { isUnanswered, NoAnswer, Problem, problemOf } from './problem.js';
import type { Answer, Args, Item, Listed, Method, Path } from './types.js';
import { any, backoff, sleep } from './wait.js';

export interface Options {
  // baseUrl is the address of the API, such as https://api.example. "" is the page's own origin.
  baseUrl: string;
  // token is the bearer token, or a function that returns the token. The client calls the function for
  // each request, so the function should cache the token. Omit token if your own backend adds the token.
  token?: string | (() => string | Promise<string>);
  // attempts bounds the attempts of a call. The default is 6 attempts, which take some 5 seconds.
  attempts?: number;
  // signal ends all calls and streams.
  signal?: AbortSignal;
  fetch?: typeof fetch;
}

// longest is the time limit of one answer in milliseconds. longestRetryAfter is the longest Retry-After
// for which the client waits, in seconds.
const longest = 30_000, longestRetryAfter = 60;

interface Request {
  path?: object;
  query?: object;
  body?: unknown;
  key?: string;
  signal?: AbortSignal;
}

// Fanfare calls one service as one user. The types of its calls come from the API's OpenAPI document:
//
//   await fanfare.put('/v1/posts/{id}/like', { path: { id } })
//
// A call fails with a Problem, with NoAnswer, or with the reason of an aborted signal. The client repeats a call
// only if a retry is harmless: GET, PUT and DELETE are idempotent, POST /v1/posts has an Idempotency-Key, and a
// call with the answer 429 had no effect. The client sends other calls once.
export class Fanfare {
  readonly #options: Options;
  readonly #base: string;
  readonly #fetch: typeof fetch;

  constructor(options: Options) {
    this.#options = options;
    this.#base = options.baseUrl.replace(/\/+$/, '');
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  get<P extends Path<'get'>>(path: P, ...[params]: Args<'get', P>): Promise<Answer<'get', P>> {
    return this.#call('get', path, params);
  }

  put<P extends Path<'put'>>(path: P, ...[params]: Args<'put', P>): Promise<Answer<'put', P>> {
    return this.#call('put', path, params);
  }

  post<P extends Path<'post'>>(path: P, ...[params]: Args<'post', P>): Promise<Answer<'post', P>> {
    return this.#call('post', path, params);
  }

  patch<P extends Path<'patch'>>(path: P, ...[params]: Args<'patch', P>): Promise<Answer<'patch', P>> {
    return this.#call('patch', path, params);
  }

  delete<P extends Path<'delete'>>(path: P, ...[params]: Args<'delete', P>): Promise<Answer<'delete', P>> {
    return this.#call('delete', path, params);
  }

  // all iterates over the items of a list, page by page.
  async *all<P extends Listed>(path: P, ...[params]: Args<'get', P>): AsyncGenerator<Item<P>, void, void> {
    const of = (params ?? {}) as Request;
    for (let cursor: string | undefined; ; ) {
      const page = await this.#call<{ items: Item<P>[]; next_cursor?: string }>('get', path, { ...of, query: { ...of.query, cursor } });
      yield* page.items;
      cursor = page.next_cursor;
      if (!cursor) return; // an empty page may have a next page
    }
  }

  // live iterates over the events of the home, until signal is aborted or the loop ends. last is a place
  // or a post after which the iteration begins; without last it begins now. live opens a new connection
  // after each break, and fails only if the service refuses the stream.
  live({ last, signal }: { last?: string; signal?: AbortSignal } = {}): AsyncGenerator<LiveEvent, void, void> {
    const ended = any(signal, this.#options.signal);
    return live((place, quiet) => this.#send('get', '/v1/home/stream', { signal: any(ended, quiet) }, {
      Accept: 'text/event-stream, application/problem+json', ...(place && { 'Last-Event-ID': place }),
    }), ended, last);
  }

  async #call<T>(method: Method, path: string, params: Request = {}): Promise<T> {
    const keyed = method === 'post' && path === '/v1/posts' ? { ...params, key: params.key ?? newKey() } : params;
    const signal = any(params.signal, this.#options.signal);
    let unanswered = false;
    for (let attempt = 1; ; attempt++) {
      try {
        const response = await this.#send(method, path, { ...keyed, signal: any(signal, AbortSignal.timeout(longest)) });
        const text = await response.text();
        return (text ? JSON.parse(text) : undefined) as T;
      } catch (thrown) {
        signal.throwIfAborted();
        const error = thrown instanceof Problem || thrown instanceof SyntaxError ? thrown : new NoAnswer('no answer', { cause: thrown });
        // An earlier attempt has deleted the object, and its answer was lost.
        if (unanswered && method === 'delete' && error instanceof Problem && error.status === 404) return undefined as T;
        unanswered ||= isUnanswered(error);
        const wait = this.#wait(error, attempt, ['get', 'put', 'delete'].includes(method) || keyed.key !== undefined);
        if (wait === undefined) throw error;
        await sleep(wait, signal);
      }
    }
  }

  // #wait returns the milliseconds before the next attempt, or undefined if the call must not be
  // repeated.
  #wait(error: unknown, attempt: number, repeatable: boolean): number | undefined {
    const asked = error instanceof Problem ? error.retryAfter : 0;
    const refused = error instanceof Problem && error.status === 429;
    if (attempt >= (this.#options.attempts ?? 6) || asked > longestRetryAfter) return undefined;
    if (!refused && !(repeatable && isUnanswered(error))) return undefined;
    return Math.max(asked * 1000, backoff(attempt));
  }

  async #send(method: Method, path: string, { path: parts, query, body, key, signal }: Request, headers: Record<string, string> = {}): Promise<Response> {
    const { token } = this.#options;
    const bearer = typeof token === 'function' ? await token() : token;
    const response = await this.#fetch(this.#base + filled(path, parts) + queryOf(query), {
      method: method.toUpperCase(), // fetch sends "patch" unchanged, and servers know only PATCH
      redirect: 'error', // the API never redirects, and no other host may get the token
      signal: signal ?? null,
      headers: {
        ...(bearer && { Authorization: `Bearer ${bearer}` }),
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        ...(key !== undefined && { 'Idempotency-Key': key }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw await problemOf(response);
    return response;
  }
}

function filled(path: string, parts: object = {}): string {
  const values = new Map(Object.entries(parts));
  return path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values.get(name))));
}

function queryOf(query: object = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined).map(([name, value]) => [name, String(value)]);
  return given.length ? `?${new URLSearchParams(given)}` : '';
}

// crypto.randomUUID exists only on pages of https and of localhost.
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), byte => byte.toString(16).padStart(2, '0')).join('');
}

