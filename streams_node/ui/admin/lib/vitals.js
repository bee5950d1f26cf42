// How the node is: its details and its counters, asked every two seconds while somebody looks, with a short history.
import { asJson, asText, request } from "./api.js";
import { signal } from "./html.js";
import { whenUp } from "./link.js";

const EVERY_MS = 2000;
const FIRST_MS = 500;
const SAMPLES_MAX = 450; // a quarter of an hour

// kind: loading, ready, error. details is null on a node that has no `_details`.
export const vitals = signal({ kind: "loading", samples: [] });

let stop = null;

export function watchVitals() {
  stop?.abort();
  stop = new AbortController();
  void run(stop.signal);
  const mine = stop;
  return () => mine.abort();
}

async function run(ended) {
  while (!ended.aborted) {
    if (!document.hidden) await once(ended);
    // A rate needs two looks: the second one comes soon.
    await new Promise((done) => setTimeout(done, vitals.peek().samples.length < 2 ? FIRST_MS : EVERY_MS));
  }
}

async function once(ended) {
  const { samples } = vitals.peek();
  try {
    await whenUp(ended);
    const [details, text, ready] = await Promise.all([
      asJson("/v1/server/_details", { signal: ended }).catch(orNull),
      asText("/metrics", { signal: ended }),
      request("/readyz", { signal: ended, also: [503] }).then((response) => response.json()),
    ]);
    const now = sample(text);
    const kept = restarted(samples.at(-1), now) ? [] : samples;
    vitals.value = { kind: "ready", details, ready, samples: [...kept, now].slice(-SAMPLES_MAX), at: Date.now() };
  } catch (error) {
    if (!ended.aborted && error.code !== "unreachable") vitals.value = { ...vitals.peek(), kind: "error", error };
  }
}

const orNull = (error) => {
  if (error.status === 404) return null;
  throw error;
};

const restarted = (last, now) => Boolean(last) && (now.values.streams_uptime_seconds ?? 0) < (last.values.streams_uptime_seconds ?? 0);

// Prometheus text as numbers; those with labels are added up under their name.
function sample(text) {
  const values = {};
  for (const line of text.split("\n")) {
    const found = /^([a-z_:]+)(?:\{[^}]*\})? ([^ ]+)/i.exec(line);
    if (found) values[found[1]] = (values[found[1]] ?? 0) + Number(found[2]);
  }
  return { at: Date.now() / 1000, values };
}

// A counter's growth a second, between samples.
export function rates(samples, name, scale = 1) {
  const times = [];
  const found = [];
  for (let at = 1; at < samples.length; at += 1) {
    const [before, after] = [samples[at - 1], samples[at]];
    times.push(after.at);
    found.push((scale * Math.max(0, (after.values[name] ?? 0) - (before.values[name] ?? 0))) / Math.max(0.001, after.at - before.at));
  }
  return [times, found];
}

export const levels = (samples, name, scale = 1) => [samples.map((each) => each.at), samples.map((each) => scale * (each.values[name] ?? 0))];

// The mean of a histogram between samples; null where nothing was measured.
export function means(samples, name, scale = 1) {
  const [times, sums] = rates(samples, `${name}_sum`);
  const [, counts] = rates(samples, `${name}_count`);
  return [times, sums.map((sum, at) => (counts[at] ? (scale * sum) / counts[at] : null))];
}
