// Loading what a view shows: first nothing, then the data; while it is loaded anew the old is still there, marked stale.
import { useEffect, useRef, useSignal } from "./html.js";
import { returns } from "./link.js";

// `work(signal)` gives the data. It runs when `deps` change, when the node is back, and at `reload()`.
export function useLoad(work, deps) {
  const state = useSignal({ kind: "loading" });
  const turn = useSignal(0);
  const last = useRef(work);
  last.current = work;
  const back = returns.value;
  useEffect(() => {
    const stop = new AbortController();
    const { data: old, at } = state.peek(); // an earlier failure is none of what is asked now
    state.value = old === undefined ? { kind: "loading" } : { kind: "ready", data: old, at, stale: true };
    last.current(stop.signal).then(
      (data) => {
        if (!stop.signal.aborted) state.value = { kind: "ready", data, at: Date.now() };
      },
      (error) => {
        if (!stop.signal.aborted) state.value = { kind: "error", error, data: state.peek().data };
      },
    );
    return () => stop.abort();
  }, [...deps, turn.value, back]);
  return { ...state.value, reload: () => (turn.value += 1) };
}

// The time, so that ages grow while somebody looks at them.
export function useNow(every = 1000) {
  const now = useSignal(Date.now());
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) now.value = Date.now();
    }, every);
    return () => clearInterval(timer);
  }, [every]);
  return now.value;
}
