// How the page's data is inflated: what the first screen needs at once, the rest when that is drawn.

/** Lets the browser do what waits for it, where that is wanted, between two steps of a long work. */
export type Pause = () => Promise<void>;

function decode(base64: string): Uint8Array<ArrayBuffer> {
  // Browsers since 2025 do it at once; others take ten times as long, which is not much either.
  const native = (Uint8Array as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native.call(Uint8Array, base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** Bytes that are inflated between two looks at the clock: a millisecond or two. */
const PIECE = 1 << 16;
/** Milliseconds after which a long work pauses. */
export const STEP_MS = 30;

/** Bytes that are inflated as they are asked for. */
export type Inflated = Pick<Inflater, 'bytes' | 'until' | 'end'>;

/** Inflates the base64 text of a gzip stream without any request. */
export class Inflater {
  /** All bytes; what is not yet inflated is 0. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  private readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  private filled = 0;

  constructor(base64: string) {
    const packed = decode(base64.trim());
    if (packed.length < 18) throw new Error('the data is cut off');
    // A gzip stream ends with the length of what is in it.
    this.bytes = new Uint8Array(new DataView(packed.buffer).getUint32(packed.length - 4, true));
    const { readable, writable } = new DecompressionStream('gzip');
    this.reader = readable.getReader();
    // The stream takes a piece when somebody reads what comes out of it; who reads hears of what goes wrong.
    void feed(writable, packed).catch(() => {});
  }

  /** Inflates until the first `end` bytes are there. */
  async until(end: number, pause: Pause | null = null): Promise<void> {
    let since = performance.now();
    while (this.filled < end) {
      const { done, value } = await this.reader.read();
      if (done) throw new Error('the data is cut off');
      this.bytes.set(value, this.filled);
      this.filled += value.length;
      if (!pause || performance.now() - since < STEP_MS) continue;
      await pause();
      since = performance.now();
    }
  }

  async end(pause: Pause | null = null): Promise<void> {
    await this.until(this.bytes.length, pause);
    while (!(await this.reader.read()).done);
  }
}

async function feed(to: WritableStream<BufferSource>, bytes: Uint8Array<ArrayBuffer>) {
  const writer = to.getWriter();
  for (let at = 0; at < bytes.length; at += PIECE) {
    await writer.write(bytes.subarray(at, at + PIECE));
  }
  await writer.close();
}
