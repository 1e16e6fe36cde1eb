/** Frames of the pipe: one JSON object a line, ended by the byte 0x0A alone. */

export const MAX_FRAME_BYTES = 64 * 1024 * 1024;

const NEWLINE = 0x0a;

/** A whole frame without its line end, or the mark of one that was longer than the limit. */
export type Frame = Buffer | "oversized";

/** Cuts a stream of bytes into frames. U+2028 and U+2029 are data, which line readers would split at. */
export class FrameSplitter {
  readonly #limit: number;
  #parts: Buffer[] = [];
  #size = 0;

  constructor(limit = MAX_FRAME_BYTES) {
    this.#limit = limit;
  }

  /** Takes the next bytes and returns the frames that they complete. */
  push(chunk: Buffer): Frame[] {
    const frames: Frame[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#hold(chunk.subarray(start, end));
      frames.push(this.#release());
      start = end + 1;
    }
    this.#hold(chunk.subarray(start));
    return frames;
  }

  #hold(part: Buffer): void {
    this.#size += part.length;
    if (this.#size > this.#limit) this.#parts = [];
    else if (part.length > 0) this.#parts.push(part);
  }

  #release(): Frame {
    const frame = this.#size > this.#limit ? "oversized" : Buffer.concat(this.#parts);
    this.#parts = [];
    this.#size = 0;
    return frame;
  }
}

/** One line for the pipe. Throws RangeError when it is over the limit. */
export function encodeFrame(message: object, limit = MAX_FRAME_BYTES): Buffer {
  const frame = Buffer.from(`${JSON.stringify(message)}\n`, "utf8");
  if (frame.length - 1 > limit) throw new RangeError(`a frame of ${frame.length - 1} bytes is over ${limit}`);
  return frame;
}
