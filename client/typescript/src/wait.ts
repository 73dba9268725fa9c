// backoff returns the milliseconds before a retry. It is at least half of a time that doubles up to 5
// seconds, so that the attempts outlast a restart of the service.
export function backoff(attempt: number): number {
  return Math.min(5000, 100 * 2 ** attempt) * (0.5 + Math.random() / 2);
}

// longestTimer is the longest time of a timer. A longer timer would fire at once.
const longestTimer = 2 ** 31 - 1;

// sleep waits for ms. If signal is aborted, sleep fails with the signal's reason.
export async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  let timer, stop = () => {};
  try {
    await new Promise<void>((resolve, reject) => {
      timer = setTimeout(resolve, Math.min(ms, longestTimer));
      stop = () => reject(signal.reason);
      signal.addEventListener('abort', stop);
    });
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  }
}

// Joined is aborted with the first of some signals. It has one listener at each of them until release.
// AbortSignal.any would leave an entry in a signal that outlives many calls.
export interface Joined {
  signal: AbortSignal;
  abort(reason?: unknown): void;
  release(): void;
}

export function joined(...signals: (AbortSignal | undefined)[]): Joined {
  const joint = new AbortController(), releases: (() => void)[] = [];
  for (const signal of new Set(signals)) {
    if (!signal) continue;
    const stop = () => joint.abort(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop);
    releases.push(() => signal.removeEventListener('abort', stop));
  }
  return { signal: joint.signal, abort: reason => joint.abort(reason), release: () => releases.forEach(release => release()) };
}
