// backoff returns the milliseconds before a retry. It is at least half of a time that doubles up to 5
// seconds, so that the attempts outlast a restart of the service.
export function backoff(attempt: number): number {
  return Math.min(5000, 100 * 2 ** attempt) * (0.5 + Math.random() / 2);
}

// sleep waits for ms. If signal is aborted, sleep fails with the signal's reason.
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}

// any returns a signal that is aborted when the first of the given signals is aborted.
export function any(...signals: (AbortSignal | undefined)[]): AbortSignal {
  return AbortSignal.any(signals.filter(s => s !== undefined));
}
