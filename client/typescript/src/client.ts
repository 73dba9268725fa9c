import { live, type LiveEvent } from './live.js';
import { bodyOf, foreign, isHarmless, isUnanswered, mediaOf, NoAnswer, Problem, refusalOf, textOf } from './answer.js';
import { bodiless, type Answer, type Args, type AsView, type Item, type Listed, type Method, type Path, type Plain, type Schemas, type Unviewed, type UnviewedItem, type Viewable, type Viewed } from './types.js';
import { backoff, joined, sleep } from './wait.js';

export interface Options {
  // baseUrl is the address of the API, such as https://api.example. "" is the page's own origin.
  baseUrl: string;
  // token is the bearer token, or a function that returns the token. The client calls the function for
  // each request, so the function should cache the token. If the function fails, the call sends nothing and
  // fails at once with the function's error. Omit token if your own backend adds the token.
  token?: string | (() => string | Promise<string>);
  // others are the addresses of the other machines of a pair. Behind a balancer there are none.
  others?: string[];
  // failover is the number of milliseconds for which a call waits for the end of a failover, whatever attempts
  // is. The call's signal may end the wait earlier.
  failover?: number;
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
// A call fails with a Problem, with NoAnswer, or with the reason of an aborted signal. Only an answer of the
// service decides: a page of a proxy, whatever its status, is no answer. A call that sends nothing fails at once:
// with the error of the token function, or with a TypeError for a bad value. The client repeats a call
// only if a retry is harmless: GET, PUT and DELETE are idempotent, POST /v1/posts has an Idempotency-Key, and a
// call with the answer 429, or with the answer of a standby, had no effect. The client sends other calls once.
// After a call without an answer the next attempt goes to the next machine.
export class Fanfare {
  readonly #options: Options;
  readonly #machines: string[];
  #now = 0; // the machine that gets the next request
  readonly #fetch: typeof fetch;

  constructor(options: Options) {
    this.#options = options;
    this.#machines = [options.baseUrl, ...options.others ?? []].map(url => url.replace(/\/+$/, ''));
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  get<P extends Viewable>(path: P, params: AsView<P>): Promise<Viewed<P>>;
  get<P extends Viewable>(path: P, ...[params]: Plain<P>): Promise<Unviewed<P>>;
  get<P extends Path<'get'>>(path: P, ...[params]: Args<'get', P>): Promise<Answer<'get', P>>;
  get(path: string, params?: Request): Promise<unknown> {
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
  all<P extends Listed & Viewable>(path: P, params: AsView<P>): AsyncGenerator<Schemas['PostView'], void, void>;
  all<P extends Listed & Viewable>(path: P, ...[params]: Plain<P>): AsyncGenerator<UnviewedItem<P>, void, void>;
  all<P extends Listed>(path: P, ...[params]: Args<'get', P>): AsyncGenerator<Item<P>, void, void>;
  async *all(path: string, of: Request = {}): AsyncGenerator<unknown, void, void> {
    for (let cursor: string | undefined; ; ) {
      const page = await this.#call<{ items: unknown[]; next_cursor?: string }>('get', path, { ...of, query: { ...of.query, cursor } });
      if (!Array.isArray(page.items)) throw new NoAnswer('the answer is not a list');
      yield* page.items;
      cursor = page.next_cursor;
      if (!cursor) return; // an empty page may have a next page
    }
  }

  // live iterates over the events of the home, until signal is aborted or the loop ends. last is a place
  // or a post after which the iteration begins; without last it begins now. live opens a new connection
  // after each break, and fails only if the service refuses the stream, or if a request cannot be sent: the token
  // function fails, or last is damaged.
  live({ last, signal }: { last?: string; signal?: AbortSignal } = {}): AsyncGenerator<LiveEvent, void, void> {
    const connect = async (place: string) => {
      const request = await this.#request('get', '/v1/home/stream', {}, {
        Accept: 'text/event-stream, application/problem+json', ...(place && { 'Last-Event-ID': place }),
      });
      return async (quiet: AbortSignal) => {
        const response = await this.#send(request, quiet);
        if (response.status === 200 && mediaOf(response) === 'text/event-stream') return response;
        this.#leave(request.at);
        throw foreign(response, await textOf(response), 'an event stream');
      };
    };
    return live(connect, [signal, this.#options.signal], last, this.#machines.length);
  }

  async #call<T>(method: Method, path: string, params: Request = {}): Promise<T> {
    const keyed = method === 'post' && path === '/v1/posts' ? { ...params, key: params.key ?? newKey() } : params;
    let unanswered = false;
    const tries = { attempt: 1, began: Date.now(), asked: 0 };
    for (; ; tries.attempt++) {
      const ended = joined(params.signal, this.#options.signal);
      try {
        ended.signal.throwIfAborted();
        const request = await this.#request(method, path, keyed);
        const { error, body } = await this.#attempt<T>(request, path in bodiless[method], ended.signal);
        if (!error) return body as T;
        ended.signal.throwIfAborted();
        // An earlier attempt has deleted the object, and its answer was lost.
        if (unanswered && method === 'delete' && error instanceof Problem && error.status === 404 && error.ofService) return undefined as T;
        unanswered ||= isUnanswered(error) && !isHarmless(error);
        const wait = this.#wait(error, tries, ['get', 'put', 'delete'].includes(method) || keyed.key !== undefined);
        if (wait === undefined) throw error;
        await sleep(wait, ended.signal);
      } finally {
        ended.release();
      }
    }
  }

  // #attempt sends a request once. It returns the body of the service's answer, or the error of the attempt.
  async #attempt<T>(request: Sent, empty: boolean, ended: AbortSignal): Promise<{ error?: Problem | NoAnswer; body?: T }> {
    const limit = joined(ended), timer = setTimeout(() => limit.abort(new NoAnswer(`no answer within ${longest} ms`)), longest);
    try {
      const response = await this.#send(request, limit.signal);
      try {
        return { body: bodyOf(response, await textOf(response), empty) as T };
      } catch (error) {
        if (!ended.aborted) this.#leave(request.at);
        throw error;
      }
    } catch (error) {
      return { error: error instanceof Problem || error instanceof NoAnswer ? error : new NoAnswer('no answer', { cause: error }) };
    } finally {
      clearTimeout(timer);
      limit.release();
    }
  }

  // #wait returns the milliseconds before the next attempt, or undefined if the call must not be
  // repeated. All machines are asked before a wait.
  #wait(error: unknown, tries: { attempt: number; began: number; asked: number }, repeatable: boolean): number | undefined {
    const { attempts = 6, failover } = this.#options;
    const spent = failover === undefined ? tries.attempt >= attempts : Date.now() - tries.began >= failover;
    if (error instanceof Problem) tries.asked = Math.max(tries.asked, error.retryAfter);
    if (spent || tries.asked > longestRetryAfter) return undefined;
    if (!isHarmless(error) && !(repeatable && isUnanswered(error))) return undefined;
    if (isUnanswered(error) && tries.attempt % this.#machines.length) return 0;
    const wait = Math.max(tries.asked * 1000, failover === undefined ? backoff(tries.attempt) : Math.min(1000, backoff(tries.attempt)));
    tries.asked = 0;
    return wait;
  }

  // #leave makes the next request go to the machine after at, unless another call has left at already.
  #leave(at: number) {
    if (this.#now === at) this.#now = (at + 1) % this.#machines.length;
  }

  // #request returns a request for the next machine. Its errors are the caller's: nothing was sent.
  async #request(method: Method, path: string, { path: parts, query, body, key }: Request, headers: Record<string, string> = {}): Promise<Sent> {
    const { token } = this.#options;
    const target = filled(path, parts) + queryOf(query);
    const bearer = typeof token === 'function' ? await token() : token;
    const init = {
      method: method.toUpperCase(), // fetch sends "patch" unchanged, and servers know only PATCH
      redirect: 'manual' as const, // the API never redirects, and no other host may get the token
      headers: {
        ...(bearer && { Authorization: `Bearer ${bearer}` }),
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        ...(key !== undefined && { 'Idempotency-Key': key }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    };
    checkHeaders(init.headers);
    const at = this.#now;
    return { at, url: this.#machines[at] + target, init };
  }

  // #send returns the successful answer of a request, which may still be a proxy's. Any other answer is an error.
  async #send({ at, url, init }: Sent, signal: AbortSignal): Promise<Response> {
    try {
      const response = await this.#fetch(url, { ...init, signal });
      if (response.ok) return response;
      throw await refusalOf(response);
    } catch (error) {
      const reason: unknown = signal.reason; // an aborted call is no sign of a machine that is down
      if (signal.aborted ? reason instanceof NoAnswer : !(error instanceof Problem) || isUnanswered(error)) this.#leave(at);
      throw error;
    }
  }
}

// Sent is a request for the machine at.
interface Sent {
  at: number;
  url: string;
  init: RequestInit & { headers: Record<string, string> };
}

// stray matches a path with an empty or a dot segment, such as the id "..", also if it is encoded once more.
// Servers and proxies resolve dots, so they would send the call to another path.
const stray = /(^|\/|%(25)*(2f|5c))(\.|%(25)*2e){0,2}($|\/|%(25)*(2f|5c))/i;

function filled(path: string, parts: object = {}): string {
  const values = new Map<string, unknown>(Object.entries(parts));
  const target = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values.get(name) ?? '')));
  if (stray.test(target.slice(1))) throw new TypeError(`the path ${target} has an id that is missing, empty, "." or "..": check the ids in ${path}`);
  return target;
}

// checkHeaders fails if fetch would refuse a value. The error has no value, because a value may be a token.
function checkHeaders(headers: Record<string, string>) {
  for (const [name, value] of Object.entries(headers)) {
    try {
      new Headers({ [name]: value });
    } catch {
      throw new TypeError(`the value of ${name} has characters that no header may have: is the value damaged?`);
    }
  }
}

function queryOf(query: object = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined).map(([name, value]) => [name, String(value)]);
  return given.length ? `?${new URLSearchParams(given)}` : '';
}

// crypto.randomUUID exists only on pages of https and of localhost.
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), byte => byte.toString(16).padStart(2, '0')).join('');
}

