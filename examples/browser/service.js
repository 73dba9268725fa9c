// The calls of one user, until signal aborts them.
export class Service {
  constructor({ base, token, signal }) {
    Object.assign(this, { base, token, signal });
  }

  async call(method, path, body) {
    const response = await this.#send(path, {
      method,
      ...(body && { body: JSON.stringify(body) }),
      headers: body && { 'Content-Type': 'application/json' },
    });
    if (!response.ok) throw await refusal(response);
    const text = await response.text(); // "" of an answer without a body
    return text ? JSON.parse(text) : undefined;
  }

  #send(path, { headers, signal, ...rest }) {
    return fetch(this.base + path, {
      ...rest,
      headers: { Authorization: `Bearer ${this.token}`, ...headers },
      signal: AbortSignal.any([this.signal, ...(signal ? [signal] : [])]),
    });
  }

  // live calls entry, likes and unread for each event of the home, once, and connects again after each
  // break. EventSource cannot send an Authorization header, and a token in a URL ends up in logs. So it
  // reads the stream with fetch.
  async live({ entry, likes, unread, state }) {
    let place = '';        // Last-Event-ID
    let since = new Set(); // posts since place, which the next connection repeats
    for (let failures = 0; !this.signal.aborted; failures++) {
      const quiet = new AbortController();
      let timer;
      const alive = () => { clearTimeout(timer); timer = setTimeout(() => quiet.abort(new Error('the stream is silent')), 40_000); };
      try {
        alive();
        const response = await this.#send('/v1/home/stream', { headers: place && { 'Last-Event-ID': place }, signal: quiet.signal });
        if (!response.ok) throw await refusal(response);
        state('live');
        let rest = '';
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let { value: text, done } = await reader.read(); !done; { value: text, done } = await reader.read()) {
          alive();
          failures = 0;
          const blocks = (rest + text).split('\n\n');
          rest = blocks.pop();
          for (const block of blocks) {
            const field = Object.fromEntries(block.split('\n').map(line => {
              const colon = line.indexOf(':');
              return [line.slice(0, colon), line.slice(colon + 1).trimStart()];
            }));
            if (field.data === undefined) {
              if (field.id) { place = field.id; since = new Set(); }
            } else if (field.event === 'likes') {
              likes(JSON.parse(field.data));
            } else if (field.event === 'notifications') {
              unread(JSON.parse(field.data).unread);
            } else if (field.event === 'entry' && !since.has(field.id)) {
              since.add(field.id);
              place ||= field.id;
              entry(JSON.parse(field.data));
            }
          }
        }
        state('interrupted');
      } catch (error) {
        if (this.signal.aborted) return;
        if (error.status && ![429, 503].includes(error.status)) return state('refused', error);
        state('interrupted', error);
      } finally {
        clearTimeout(timer);
      }
      await new Promise(done => setTimeout(done, Math.min(5000, 100 * 2 ** failures) * (0.5 + Math.random() / 2)));
    }
  }
}

async function refusal(response) {
  const problem = await response.json();
  return Object.assign(new Error(`${problem.title}: ${problem.detail}`), { status: response.status });
}
