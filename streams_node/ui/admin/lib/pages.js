// Pages of a stream as messages: { seq, text }, and for streams that are not JSON { seq, end, text or bytes }.
import { body, request, streamPath } from "./api.js";
import { decode, offsetAt } from "./offsets.js";
import { elements } from "./jsontext.js";

const PAGE_BYTES = 256 * 1024;
const ENTRIES_AT_ONCE = 8;

export const isJson = (type) => type === "application/json";
export const isText = (type) => type.startsWith("text/");

// The messages from an offset on, and where the next page begins.
export async function page(stream, from, signal, bytesMax = PAGE_BYTES) {
  const query = new URLSearchParams({ max_bytes: bytesMax, ...from });
  const response = await request(`${streamPath(stream.name)}?${query}`, { signal });
  const next = response.headers.get("Stream-Next-Offset");
  const end = decode(next).seq;
  const said = {
    next,
    end,
    atEnd: response.headers.get("Stream-Up-To-Date") === "true",
    closed: response.headers.get("Stream-Closed") === "true",
  };
  if (isJson(stream.type)) {
    const texts = elements(await body(response, () => response.text()));
    return { ...said, messages: texts.map((text, at) => ({ seq: end - texts.length + at, text })) };
  }
  const buffer = await body(response, () => response.arrayBuffer());
  const seq = from.offset && from.offset !== "-1" ? (decode(from.offset)?.seq ?? end) : from.since ? end - 1 : 0;
  return { ...said, messages: buffer.byteLength ? [chunk(stream, seq, end, new Uint8Array(buffer))] : [] };
}

// The messages first..end-1, to fill what is before a window.
export async function stretch(stream, first, end, signal) {
  const found = [];
  if (isJson(stream.type)) {
    for (let at = first; at < end; ) {
      const got = await page(stream, { offset: offsetAt(stream.epochs, at) }, signal);
      found.push(...got.messages.filter((each) => each.seq < end));
      if (got.end <= at) break;
      at = got.end;
    }
    return found;
  }
  // An entry is never split: a page of one byte is one entry.
  for (let at = first; at < end; at += ENTRIES_AT_ONCE) {
    const seqs = Array.from({ length: Math.min(ENTRIES_AT_ONCE, end - at) }, (_, plus) => at + plus);
    const pages = await Promise.all(seqs.map((seq) => page(stream, { offset: offsetAt(stream.epochs, seq) }, signal, 1)));
    found.push(...pages.flatMap((each) => each.messages));
  }
  return found;
}

export function chunk(stream, seq, end, bytes) {
  return isText(stream.type) ? { seq, end, text: new TextDecoder().decode(bytes) } : { seq, end, bytes };
}

export const bytesOf = (message) => message.bytes ?? new TextEncoder().encode(message.text);
