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
  ) {
    super([`${status} ${title}`, detail, ...errors.map(e => `${e.field}: ${e.detail}`)].filter(Boolean).join('; '));
  }
}

// NoAnswer is the error of a call without an answer.
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

// isUnanswered reports whether the effect of a failed call is unknown.
export function isUnanswered(error: unknown): boolean {
  return error instanceof NoAnswer || (error instanceof Problem && [502, 503, 504].includes(error.status));
}

// isHarmless reports whether a failed call had no effect: the service limits the rate, or the machine is the
// standby of a pair.
export function isHarmless(error: unknown): boolean {
  return error instanceof Problem && (error.status === 429 || (error.status === 503 && error.type === 'standby'));
}

// problemOf returns the Problem of any unsuccessful answer, even of a proxy's answer.
export async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text();
  let body: Partial<Problem> = { detail: text.trim().slice(0, 200) };
  if (response.headers.get('Content-Type')?.startsWith('application/problem+json')) {
    try {
      body = JSON.parse(text) as Partial<Problem>;
    } catch {
      // The text is not JSON, so it is the detail.
    }
  }
  return new Problem(response.status, body.type ?? 'about:blank', body.title ?? response.statusText, body.detail ?? '', body.errors ?? [],
    secondsOf(response.headers.get('Retry-After')));
}

function secondsOf(retryAfter: string | null): number {
  if (!retryAfter) return 0;
  const seconds = /^\d+$/.test(retryAfter) ? Number(retryAfter) : (Date.parse(retryAfter) - Date.now()) / 1000;
  return Math.max(0, seconds || 0);
}
