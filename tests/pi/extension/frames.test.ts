import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeFrame, FrameSplitter } from "../../../supervisor/pi_extension/frames.ts";

const text = (frame: Buffer | string): string => frame.toString();

test("a frame ends at byte 0x0A alone", () => {
  const splitter = new FrameSplitter();
  const odd = '{"a":"one\u2028two\u2029three\u0085four\\r"}\r';
  assert.deepEqual(splitter.push(Buffer.from(`${odd}\n{}\n`)).map(text), [odd, "{}"]);
});

test("a frame may come in any pieces, cut inside a character too", () => {
  const whole = Buffer.from('{"a":"→ 日本 😀"}\n\n{"b":1}\nrest');
  for (let size = 1; size <= whole.length; size += 1) {
    const splitter = new FrameSplitter();
    const frames = [];
    for (let at = 0; at < whole.length; at += size) frames.push(...splitter.push(whole.subarray(at, at + size)));
    assert.deepEqual(frames.map(text), ['{"a":"→ 日本 😀"}', "", '{"b":1}'], `pieces of ${size} bytes`);
  }
});

test("a frame at the limit passes, one above it is marked, and the next one is whole", () => {
  const splitter = new FrameSplitter(5);
  const frames = [...splitter.push(Buffer.from("12345\n123")), ...splitter.push(Buffer.from("456\n123456\nok\n"))];
  assert.deepEqual(frames.map(text), ["12345", "oversized", "oversized", "ok"]);
});

test("what goes out is one line of UTF-8, lone surrogates as escapes", () => {
  const frame = encodeFrame({ text: "a\nb\u2028 → 😀", lone: "\ud83d" });
  assert.equal(frame.indexOf(0x0a), frame.length - 1);
  assert.equal(frame.toString(), '{"text":"a\\nb\u2028 → 😀","lone":"\\ud83d"}\n');
});

test("the limit for what goes out counts bytes without the line end", () => {
  assert.equal(encodeFrame({ a: "é" }, 10).length, 11);
  assert.throws(() => encodeFrame({ a: "éx" }, 10), /a frame of 11 bytes is over 10/);
});
