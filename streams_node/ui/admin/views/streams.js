// The list of streams: any number of them, by name, or those that begin with what is typed.
import { html, useEffect, useMemo, useRef, useSignal } from "../lib/html.js";
import { count, short, straight } from "../lib/format.js";
import { returns } from "../lib/link.js";
import { Found, Listing } from "../lib/listing.js";
import { go, streamLink } from "../lib/route.js";
import { Empty, Failure, Icon, Loading } from "../parts/states.js";
import { VirtualList } from "../parts/virtual.js";
import { Create } from "./create.js";
import { changes } from "./changes.js";

const ROW = 46;
const TYPING_MS = 150;

export function Streams({ selected }) {
  const typed = useSignal("");
  const text = useSignal("");
  const creating = useSignal(false);
  const focus = useSignal(0);
  const active = useSignal(null);
  const search = useRef(null);
  const list = useMemo(() => (text.value ? new Found(text.value) : new Listing()), [text.value, returns.value, changes.value]);
  useEffect(() => {
    void list.measure();
    active.value = null;
    return () => list.end();
  }, [list]);
  useEffect(() => {
    const timer = setTimeout(() => (text.value = typed.value.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed.value]);
  useEffect(() => {
    const slash = (event) => {
      if (event.key !== "/" || /INPUT|TEXTAREA|SELECT/.test(event.target.tagName) || document.querySelector("dialog")) return;
      event.preventDefault();
      search.current.focus();
    };
    addEventListener("keydown", slash);
    return () => removeEventListener("keydown", slash);
  }, []);
  void list.changed.value;
  // Who came by a link sees where in the list the stream is, if it is on a page that was read.
  useEffect(() => {
    const at = selected === undefined || active.peek() !== null ? null : list.find(selected);
    if (at !== null) focus.value = at;
  }, [selected, list, list.pages.size]);
  const total = list.total.value;
  const rows = total ?? list.pages.get(0)?.length ?? 0;
  const keys = (event) => {
    if (typed.value.trim() !== text.value) return; // what is shown is not what was typed yet
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12 }[event.key];
    if (step) {
      event.preventDefault();
      active.value = Math.min(rows - 1, Math.max(0, (active.value ?? (step > 0 ? -1 : 1)) + step));
      focus.value = active.value;
    } else if (event.key === "Enter" && active.value !== null) {
      const stream = list.at(active.value);
      if (stream) go(streamLink(stream.name));
    }
  };
  return html`
    <aside class="streams" aria-label="Streams">
      <div class="streams-head">
        <h2>Streams</h2>
        <span class="quiet small" role="status">${total === null ? (rows ? "counting…" : "") : count(total)}${text.value && total !== null ? (list.more ? "+ found" : " found") : ""}</span>
        <span class="grow"></span>
        <button class="small-button" onClick=${() => (creating.value = true)}><${Icon} name="plus" size=${15} /> New</button>
      </div>
      <label class="search-field">
        <${Icon} name="search" size=${16} />
        <span class="visually-hidden">Find streams by the beginning of their name</span>
        <input ref=${search} type="search" placeholder="Find by prefix, or bucket/prefix" autocomplete="off" spellcheck="false"
          aria-keyshortcuts="/" value=${typed.value} onInput=${(event) => (typed.value = event.target.value)} onKeyDown=${keys} />
      </label>
      <${Body} ...${{ list, rows, total, text: text.value, selected, active: active.value, reveal: focus.value, keys, create: () => (creating.value = true) }} />
      ${creating.value && html`<${Create} close=${() => (creating.value = false)} />`}
    </aside>
  `;
}

function Body({ list, rows, total, text, selected, active, reveal, keys, create }) {
  const failure = list.failure.value;
  if (failure && !rows && failure.code !== "unreachable") return html`<${Failure} error=${failure} retry=${() => void list.measure()} title="The list could not be read" />`;
  if (total === null && !rows) return html`<${Loading} what="Loading streams" rows=${7} />`;
  if (!rows && text)
    return html`<${Empty} title="Nothing begins so" icon="search">
      No stream begins with <code>${text}</code>. Names with a bucket are found as <code>bucket/prefix</code>.
    <//>`;
  if (!rows) return html`<${Empty} title="No streams yet"><p>A stream is a log that you append to and read from any place.</p><button onClick=${create}>Create the first one</button><//>`;
  const row = (index) => {
    const stream = list.at(index);
    if (!stream) return html`<div class="stream-row" key=${index} role="listitem"><div class="bone"></div></div>`;
    const current = stream.name === selected;
    return html`
      <div role="listitem" key=${index}>
        <a class="stream-row ${index === active ? "active" : ""}" href=${streamLink(stream.name)} aria-current=${current ? "true" : null} title=${stream.name} tabindex=${index === (active ?? 0) || current ? 0 : -1}>
          <span class="stream-name">${straight(stream.name)}</span>
          <span class="stream-facts">
            <span title=${`${count(stream.next_offset)} entries`}>${short(Number(stream.next_offset))}${stream.next_offset === "1" ? " entry" : " entries"}</span>
            ${stream.profile && stream.profile !== "generic" && html`<span class="tag">${stream.profile}</span>`}
            ${stream.closed && html`<span class="tag">closed</span>`}
          </span>
        </a>
      </div>
    `;
  };
  return html`<${VirtualList} class="stream-list" role="list" aria-label="Names of streams" count=${rows} height=${ROW} row=${row} reveal=${reveal} onKeyDown=${keys} />`;
}
