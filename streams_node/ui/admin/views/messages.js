// The messages of a stream: live at its end, or from a place in it; and one of them in full.
import { html, useEffect, useMemo, useRef, useSignal } from "../lib/html.js";
import { clock, count, plural } from "../lib/format.js";
import { link } from "../lib/link.js";
import { decode, offsetAt } from "../lib/offsets.js";
import { note, route } from "../lib/route.js";
import { Tail } from "../lib/tail.js";
import { Empty, Failure, Icon, Loading } from "../parts/states.js";
import { VirtualList } from "../parts/virtual.js";
import { Inspector } from "./inspector.js";
import { Jump } from "./jump.js";
import { Preview } from "./preview.js";

const ROW = 30;
const RATE_MS = 1000;

export function Messages({ name, data }) {
  const { stream } = data;
  const { params } = route.value;
  const { from = "", since = "", at = "" } = params;
  const end = Number(stream.next_offset);
  const tail = useMemo(() => new Tail({ name, type: stream.content_type, epochs: stream.epochs, earliest: Number(stream.earliest_offset ?? 0) }), [name, from, since, stream.epoch]);
  const picked = useSignal(null); // the sequence of the message that is shown in full
  useEffect(() => {
    const start = from || since ? { ...(since ? { since } : { offset: from }) } : at ? { offset: before(stream, at) } : { live: true };
    void tail.open(start, end).then(() => {
      if (at && picked.peek() === null) picked.value = (decode(at)?.seq ?? 0) - 1;
    });
    return () => tail.end();
  }, [tail]);
  const choose = (seq) => {
    picked.value = seq;
    note({ at: seq === null ? "" : offsetAt(stream.epochs, seq + 1) });
  };
  return html`
    <div class="messages ${picked.value === null ? "" : "with-inspector"}">
      <div class="messages-main">
        <${Toolbar} ...${{ tail, end, from, since, stream }} />
        <${List} ...${{ tail, picked: picked.value, choose, stream }} />
        <${Foot} tail=${tail} end=${end} />
      </div>
      ${picked.value !== null && html`<${Inspector} name=${name} stream=${stream} seq=${picked.value} tail=${tail} choose=${choose} close=${() => choose(null)} />`}
    </div>
  `;
}

// An offset stands behind its message; reading begins before it.
const before = (stream, offset) => {
  const place = decode(offset);
  return place && place.seq > 0 ? offsetAt(stream.epochs, place.seq - 1) : "-1";
};

function Toolbar({ tail, end, from, since, stream }) {
  const { kind, closed } = tail.state.value;
  const live = kind === "live" && !closed;
  const away = live && !link.value.up;
  const toggle = () => {
    if (kind === "live") tail.pause();
    else if (from || since) note({ from: "", since: "" });
    else void tail.resume(end);
  };
  useEffect(() => {
    const pressed = (event) => {
      if (event.key !== "p" || event.ctrlKey || event.metaKey || /INPUT|TEXTAREA|SELECT/.test(event.target.tagName) || document.querySelector("dialog")) return;
      toggle();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
  return html`
    <div class="toolbar">
      <button class=${live ? "plain" : ""} onClick=${toggle} disabled=${kind === "loading" || (closed && kind === "live")} aria-keyshortcuts="p" aria-pressed=${live ? "true" : "false"}>
        <${Icon} name=${live ? "pause" : "play"} size=${14} /> ${live ? "Pause" : from || since ? "Go live" : "Follow"}
      </button>
      <span class="pill ${away ? "bad" : live ? "live" : "quiet"}" role="status"><i class="dot"></i>${closed ? "Closed, complete" : away ? "Waits for the node" : live ? "Live" : kind === "loading" ? "Reading" : "Paused"}</span>
      <${Rate} tail=${tail} live=${live} />
      <span class="grow"></span>
      <${Jump} stream=${stream} from=${from} since=${since} />
    </div>
  `;
}

function Rate({ tail, live }) {
  const rate = useSignal(null);
  useEffect(() => {
    let last = tail.came;
    const timer = setInterval(() => {
      rate.value = tail.came - last;
      last = tail.came;
    }, RATE_MS);
    return () => clearInterval(timer);
  }, [tail]);
  return html`<span class="quiet small rate">${live && rate.value !== null ? `${count(rate.value)}/s` : ""}</span>`;
}

function List({ tail, picked, choose, stream }) {
  void tail.tick.value;
  const { kind, error, atEnd } = tail.state.value;
  const box = useRef(null);
  const follow = kind === "live";
  if (kind === "error" && !tail.messages.length) return html`<${Failure} error=${error} title="The messages could not be read" />`;
  if (kind === "loading" && !tail.messages.length) return html`<${Loading} what="Reading messages" rows=${8} />`;
  if (!tail.messages.length)
    return html`<${Empty} title=${stream.closed ? "Closed without an entry" : "Nothing here yet"}>
      ${stream.closed ? "Nothing was ever appended." : follow ? "What is appended appears here at once. Append something to see it." : "There is nothing from this place on."}
    <//>`;
  const { messages } = tail;
  const index = picked === null ? -1 : picked - messages[0].seq;
  const scrolled = ({ atStart, atEnd: below }) => {
    if (atStart && !follow) void tail.earlier();
    if (below && !follow && !atEnd) void tail.later();
  };
  const wheel = (event) => {
    if (event.deltaY < 0 && follow) tail.pause();
  };
  const keys = (event) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 15, PageUp: -15, Home: -1e9, End: 1e9 }[event.key];
    if (event.key === "Escape") choose(null);
    if (!step) return;
    event.preventDefault();
    if (follow) tail.pause();
    const to = Math.min(messages.length - 1, Math.max(0, index < 0 ? messages.length - 1 : index + step));
    choose(messages[to].seq);
    if (to < 20) void tail.earlier();
    if (to > messages.length - 20 && !atEnd) void tail.later();
  };
  const row = (at) => {
    const message = messages[at];
    const chosen = message.seq === picked;
    return html`
      <div key=${message.seq} id=${`m${message.seq}`} role="option" aria-selected=${chosen ? "true" : "false"} class="message ${chosen ? "chosen" : ""}"
        onClick=${() => (follow && tail.pause(), choose(chosen ? null : message.seq))}>
        <span class="seq">${message.end > message.seq + 1 ? `${message.seq}–${message.end - 1}` : message.seq}</span>
        ${message.at && html`<time class="quiet">${clock(message.at)}</time>`}
        <${Preview} message=${message} json=${stream.content_type === "application/json"} />
      </div>
    `;
  };
  return html`
    <${VirtualList} class="message-list" ref=${box} role="listbox" tabindex="0" aria-label="Messages" aria-activedescendant=${index >= 0 ? `m${picked}` : null}
      count=${messages.length} height=${ROW} row=${row} pinned=${follow} shift=${tail.shift} reveal=${index >= 0 ? index : null}
      onScroll=${scrolled} onWheel=${wheel} onKeyDown=${keys} />
    ${kind === "error" && html`<${Failure} error=${error} title="Reading stopped here" />`}
  `;
}

function Foot({ tail, end }) {
  void tail.tick.value;
  const { kind, closed } = tail.state.value;
  if (!tail.messages.length) return null;
  const [first, last] = [tail.messages[0], tail.messages.at(-1)];
  const behind = Math.max(0, end - (last.end ?? last.seq + 1));
  return html`
    <footer class="list-foot quiet small">
      <span>Messages ${count(first.seq)} to ${count((last.end ?? last.seq + 1) - 1)} of ${count(end)}, numbered from 0</span>
      <span class="grow"></span>
      ${kind !== "live" && behind > 0 && html`<span class="tag accent">${plural(behind, "newer message")}</span>`}
      ${closed && html`<span>The stream is closed: this is all of it.</span>`}
    </footer>
  `;
}
