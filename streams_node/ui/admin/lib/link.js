// Whether the node answers. Who meets a broken connection says so here; one loop then asks until it is back.
import { signal } from "./html.js";
import { place } from "./place.js";

const FIRST_MS = 400;
const MOST_MS = 8000;
const ASK_MS = 3000;

// up: the node answers. since: when it stopped. next: when it is asked again. asking: at this moment.
export const link = signal({ up: true });
// Grows each time the node is back, so that views load anew what they show.
export const returns = signal(0);

let wake = null;

export function lost() {
  if (!link.value.up) return;
  link.value = { up: false, since: Date.now(), next: 0, asking: false };
  void again();
}

export function now() {
  wake?.();
}

export async function whenUp(signal_) {
  while (!link.value.up && !signal_?.aborted) {
    await new Promise((done) => {
      const stop = link.subscribe((value) => value.up && setTimeout(done));
      signal_?.addEventListener("abort", done, { once: true });
      setTimeout(() => (stop(), done()), 1000);
    });
  }
}

async function again() {
  let wait = FIRST_MS;
  for (;;) {
    const pause = wait * (0.75 + Math.random() / 2);
    link.value = { ...link.value, asking: false, next: Date.now() + pause };
    await new Promise((done) => {
      wake = done;
      setTimeout(done, pause);
    });
    link.value = { ...link.value, asking: true };
    if (await answers()) break;
    wait = Math.min(wait * 2, MOST_MS);
  }
  link.value = { up: true };
  returns.value += 1;
}

async function answers() {
  try {
    const response = await fetch(`${place.public}/health`, { cache: "no-store", signal: AbortSignal.timeout(ASK_MS) });
    return response.ok;
  } catch {
    return false;
  }
}
