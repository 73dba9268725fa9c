export interface FieldError {
  field: string;
  detail: string;
}

// Problem is an answer that refuses a call (RFC 9457). Programs should decide by type or status.
export class Problem extends Error {
  override readonly name = 'Problem';

  constructor(
    readonly status: number,
    readonly type: string,
    readonly title: string,
    readonly detail: string,
    readonly errors: readonly FieldError[], // one for each faulty field
    readonly retryAfter: number, // the seconds for which the service asks to wait, or 0
    readonly ofService = true, // false for the answer of a proxy, which has no problem details
  ) {
    super([`${status} ${title}`, detail, ...errors.map(e => `${e.field}: ${e.detail}`)].filter(Boolean).join('; '));
  }
}

// NoAnswer is the error of a call without an answer of the service. A page of a proxy is no such answer.
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

// isUnanswered reports whether the effect of a failed call is unknown: a server or a proxy failed, or did not
// receive the whole request in time.
export function isUnanswered(error: unknown): boolean {
  return error instanceof NoAnswer || (error instanceof Problem && (error.status >= 500 || error.status === 408));
}

// isHarmless reports whether a failed call had no effect: the service limits the rate or handles no early data,
// or the machine is the standby of a pair.
export function isHarmless(error: unknown): boolean {
  return error instanceof Problem && ([425, 429].includes(error.status) || (error.status === 503 && error.type === 'standby'));
}

// isRefusal reports whether the service answered and will answer alike to a repetition.
export function isRefusal(error: unknown): boolean {
  return error instanceof Problem && !isUnanswered(error) && !isHarmless(error);
}

// bodyOf returns the body of a successful answer, undefined if the call's answers are empty. An answer that the
// service never gives is the answer of a proxy, so the outcome of the call is unknown.
export function bodyOf(response: Response, text: string, empty: boolean): unknown {
  if (empty) {
    if ([202, 204].includes(response.status) && text === '') return undefined;
    throw foreign(response, text, 'no content');
  }
  if ([200, 201].includes(response.status) && mediaOf(response) === 'application/json') {
    const body = objectOf(text);
    if (body) return body;
  }
  throw foreign(response, text, 'a JSON object');
}

// foreign is the error of a successful answer that is not the service's.
export function foreign(response: Response, text: string, wanted: string): NoAnswer {
  const type = response.headers.get('Content-Type') ?? 'no Content-Type';
  return new NoAnswer(`the answer ${response.status} (${type}) is not ${wanted}, so it is not the service's: ${beginning(text)}`);
}

// refusalOf returns the error of an unsuccessful answer: a Problem, even if the answer is a proxy's, or NoAnswer
// for a redirect, which the service never sends.
export async function refusalOf(response: Response): Promise<Problem | NoAnswer> {
  if (response.status < 400) { // 0 in browsers, which hide redirects
    await response.body?.cancel();
    return new NoAnswer(`the answer ${response.status || ''} is a redirect, so it is not the service's: is a sign-in page before the service?`);
  }
  const text = await textOf(response);
  const body: Partial<Record<keyof Problem, unknown>> | undefined = mediaOf(response) === 'application/problem+json' ? objectOf(text) : undefined;
  const word = (value: unknown) => typeof value === 'string' ? value : undefined;
  return new Problem(response.status, word(body?.type) ?? 'about:blank', word(body?.title) ?? response.statusText,
    body ? word(body.detail) ?? '' : beginning(text), Array.isArray(body?.errors) ? body.errors as FieldError[] : [],
    secondsOf(response.headers.get('Retry-After')), body !== undefined);
}

// textOf reads an answer. It fails with NoAnswer if the answer is cut.
export async function textOf(response: Response): Promise<string> {
  return response.text().catch((cause: unknown) => { throw cause instanceof NoAnswer ? cause : new NoAnswer('the answer was cut', { cause }); });
}

// mediaOf returns the media type of an answer without its parameters.
export function mediaOf(response: Response): string {
  return (response.headers.get('Content-Type') ?? '').split(';')[0]!.trim().toLowerCase();
}

// objectOf returns the JSON object in a text, or undefined if the text is not a JSON object.
export function objectOf(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function beginning(text: string): string {
  return text.slice(0, 200).trim().replace(/\s+/g, ' ');
}

function secondsOf(retryAfter: string | null): number {
  if (!retryAfter) return 0;
  const seconds = /^\d+$/.test(retryAfter) ? Number(retryAfter) : (Date.parse(retryAfter) - Date.now()) / 1000;
  return Math.max(0, seconds || 0);
}
