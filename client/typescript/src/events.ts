import { NoAnswer } from './answer.js';

// Block has the fields of the lines up to an empty line. Lines of data are joined.
export type Block = Map<string, string>;

// maxEvent bounds the size of an event.
const maxEvent = 1 << 20;

// blocks reads server-sent events by the rules of the HTML standard. awake bounds each read.
export async function* blocks(response: Response, awake: <T>(read: Promise<T>) => Promise<T>): AsyncGenerator<Block, void, void> {
  const reader = response.body!.getReader(), decoder = new TextDecoder();
  let block: Block = new Map(), size = 0;
  for (let rest = '', returned = false; ; ) { // returned: the last character was the end of a line, CR
    const { done, value } = await awake(reader.read());
    if (done) return; // a block without an empty line at its end is not whole
    const text = decoder.decode(value, { stream: true });
    if (text === '') continue;
    const lines = (returned && text.startsWith('\n') ? text.slice(1) : text).split(/\r\n|\n|\r/);
    lines[0] = rest + lines[0];
    returned = text.endsWith('\r');
    rest = lines.pop()!;
    for (const line of lines) {
      if (line !== '') {
        size = add(block, line, size);
        continue;
      }
      if (block.size) yield block;
      [block, size] = [new Map(), 0];
    }
    if (size + rest.length > maxEvent) throw new NoAnswer(`an event is larger than ${maxEvent} characters`);
  }
}

// add adds the field of a line to a block, and returns the size of the block.
function add(block: Block, line: string, size: number): number {
  const colon = line.indexOf(':');
  if (colon === 0) return size; // a comment
  const name = colon < 0 ? line : line.slice(0, colon), value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
  if (name === 'id' && value.includes('\0')) return size;
  const earlier = name === 'data' ? block.get(name) : undefined;
  block.set(name, earlier === undefined ? value : `${earlier}\n${value}`);
  return size + line.length;
}
