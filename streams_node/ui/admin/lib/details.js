// All that is known of the stream that is shown: `_details`, followed by long-poll while somebody looks.
import { request, streamPath } from "./api.js";
import { signal } from "./html.js";
import { lost, whenUp } from "./link.js";

const WAIT = "25s";
const PAUSE_MS = 400; // a busy stream changes ten times a second; nobody reads so fast
const AFTER_FAILURE_MS = 3000;

// kind: loading, ready, gone, error. With the data: at, when it came.
export const details = signal({ kind: "loading", name: "" });

let stop = null;

export function watch(name) {
  stop?.abort();
  stop = new AbortController();
  details.value = { kind: "loading", name };
  void run(name, stop.signal);
  const mine = stop;
  return () => mine.abort();
}

async function run(name, ended) {
  let tag = null;
  while (!ended.aborted) {
    try {
      await visible(ended);
      await whenUp(ended);
      tag = await once(`${streamPath(name)}/_details`, name, tag, ended);
      await pause(PAUSE_MS, ended);
    } catch (error) {
      if (ended.aborted) return;
      const gone = error.status === 404 || error.status === 410; // until somebody creates it
      if (gone) details.value = { kind: "gone", name, error };
      else if (error.code !== "unreachable") details.value = { ...details.peek(), kind: "error", name, error };
      tag = null;
      await pause(error.code === "unreachable" ? 0 : AFTER_FAILURE_MS, ended);
    }
  }
}

async function once(path, name, tag, ended) {
  const asked = tag ? `${path}?live=long-poll&timeout=${WAIT}` : path;
  const response = await request(asked, { also: [304], headers: tag ? { "If-None-Match": tag } : {}, signal: ended });
  if (response.status === 304) {
    details.value = { ...details.peek(), at: Date.now() };
    return tag;
  }
  let data;
  try {
    data = await response.json();
  } catch (failure) {
    if (!ended.aborted) lost();
    throw failure;
  }
  if (!ended.aborted) details.value = { kind: "ready", name, data, at: Date.now() };
  return response.headers.get("ETag");
}

const pause = (ms, ended) =>
  new Promise((done) => {
    setTimeout(done, ms);
    ended.addEventListener("abort", done, { once: true });
  });

// A tab that nobody sees holds none of the few connections that a browser gives a node.
function visible(ended) {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => {
    const seen = () => {
      if (document.hidden && !ended.aborted) return;
      document.removeEventListener("visibilitychange", seen);
      done();
    };
    document.addEventListener("visibilitychange", seen);
    ended.addEventListener("abort", seen, { once: true });
  });
}
