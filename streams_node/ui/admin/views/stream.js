// One stream: what it is, how fresh it is, what can be done with it, and its tabs.
import { html, useEffect, useRef, useSignal } from "../lib/html.js";
import { request, streamPath } from "../lib/api.js";
import { details, watch } from "../lib/details.js";
import { age, bytes, count, ends, moment, plural, straight } from "../lib/format.js";
import { link } from "../lib/link.js";
import { useNow } from "../lib/load.js";
import { go, route, streamLink } from "../lib/route.js";
import { Confirm } from "../parts/dialog.js";
import { Empty, Failure, Icon, Loading } from "../parts/states.js";
import { changes } from "./changes.js";
import { Indexes } from "./indexes.js";
import { Messages } from "./messages.js";
import { Producers } from "./producers.js";
import { Produce } from "./produce.js";
import { Schema } from "./schema.js";
import { Search } from "./search.js";
import { Storage } from "./storage.js";

const NAMES = { messages: "Messages", search: "Search", schema: "Schema", index: "Index", storage: "Storage", producers: "Producers" };
const VIEWS = { messages: Messages, search: Search, schema: Schema, index: Indexes, storage: Storage, producers: Producers };

export function Stream({ name }) {
  useEffect(() => watch(name), [name]);
  const { kind, data, error, name: of } = details.value;
  const { tab } = route.value;
  if (of !== name || (kind === "loading" && !data)) return html`<div class="stream"><h1 class="stream-title" title=${name}>${straight(name)}</h1><${Loading} what="Loading the stream" rows=${6} /></div>`;
  if (kind === "gone")
    return html`<div class="stream"><h1 class="stream-title" title=${name}>${straight(name)}</h1>
      <${Empty} title="There is no such stream"><p>It was deleted, has ended, or never was. It appears here when somebody creates it.</p><a class="button" href="#/streams">All streams</a><//></div>`;
  if (!data) return html`<div class="stream"><h1 class="stream-title" title=${name}>${straight(name)}</h1><${Failure} error=${error} title="The stream could not be read" /></div>`;
  const View = VIEWS[tab];
  return html`
    <div class="stream">
      <${Head} name=${name} data=${data} />
      <${Tabs} name=${name} tab=${tab} data=${data} />
      <div class="tab-body">
        ${kind === "error" && html`<${Failure} error=${error} title="The details are old" />`}
        <${View} name=${name} data=${data} />
      </div>
    </div>
  `;
}

// On a narrow screen they are wider than it: the one that is shown is always in sight.
function Tabs({ name, tab, data }) {
  const box = useRef(null);
  useEffect(() => {
    const here = box.current.querySelector("[aria-current]");
    box.current.scrollLeft = here.offsetLeft - (box.current.clientWidth - here.offsetWidth) / 2;
  }, [tab]);
  return html`
    <nav class="tabs" aria-label="Parts of the stream" ref=${box}>
      ${Object.keys(NAMES).map((each) => html`<a href=${streamLink(name, each)} aria-current=${each === tab ? "page" : null}>${NAMES[each]}<${Mark} tab=${each} data=${data} /></a>`)}
    </nav>
  `;
}

// A tab says when something behind it wants to be looked at. Small streams never get an index: that is no warning.
function Mark({ tab, data }) {
  if (tab !== "index") return null;
  const behind = data.index_status.search_families.filter((each) => !each.fully_indexed_uploaded_segments);
  if (!behind.length) return null;
  return behind.some((each) => each.updated_at) ? html`<span class="tag warn">behind</span>` : html`<span class="tag">none yet</span>`;
}

function Head({ name, data }) {
  const open = useSignal(null);
  const { stream } = data;
  const close = () => (open.value = null);
  const path = streamPath(name);
  return html`
    <header class="stream-head">
      <div class="stream-heading">
        <a class="narrow-only back" href="#/streams" aria-label="All streams"><${Icon} name="back" /></a>
        <h1 class="stream-title" title=${name}>${straight(name)}</h1>
        <span class="pill ${stream.closed ? "quiet" : "good"}"><i class="dot"></i>${stream.closed ? "Closed" : "Open"}</span>
        <span class="tag">${stream.content_type}</span>
        ${stream.profile !== "generic" && html`<span class="tag">${stream.profile}</span>`}
        ${stream.forked_from && html`<a class="tag" href=${streamLink(stream.forked_from.stream)}>fork of ${straight(stream.forked_from.stream)}</a>`}
        <span class="grow"></span>
        <div class="actions">
          <button disabled=${stream.closed} onClick=${() => (open.value = "produce")}><${Icon} name="send" size=${15} /> Append</button>
          <button class="plain" disabled=${stream.closed} onClick=${() => (open.value = "close")}><${Icon} name="lock" size=${15} /> Close</button>
          <button class="plain danger-text" onClick=${() => (open.value = "delete")}><${Icon} name="trash" size=${15} /> Delete</button>
        </div>
      </div>
      <${Facts} stream=${stream} />
      ${open.value === "produce" && html`<${Produce} name=${name} stream=${stream} close=${close} />`}
      ${open.value === "close" &&
      html`<${Confirm} title="Close the stream" name=${name} action="Close for good" close=${close} run=${() => request(path, { method: "POST", headers: { "Stream-Closed": "true" } })}>
        <p>Nothing can be appended any more, and it cannot be opened again. All ${plural(stream.next_offset, "entry", "entries")} can still be read.</p>
      <//>`}
      ${open.value === "delete" &&
      html`<${Confirm} title="Delete the stream" name=${name} action="Delete for good" close=${close} run=${() => request(path, { method: "DELETE" })} done=${() => ((changes.value += 1), go("#/streams"))}>
        <p>The stream and ${plural(stream.next_offset, "entry", "entries")} in it (${bytes(stream.total_size_bytes)}) will be gone, from the node and from the object store.</p>
      <//>`}
    </header>
  `;
}

function Facts({ stream }) {
  const now = useNow();
  const fresh = details.value.at;
  const { up } = link.value;
  const waiting = Number(stream.pending_rows);
  return html`
    <dl class="facts">
      <div><dt>Entries</dt><dd>${count(stream.next_offset)}</dd></div>
      <div><dt>Size</dt><dd>${bytes(stream.total_size_bytes)}</dd></div>
      <div><dt>Last append</dt><dd title=${moment(stream.last_append_at)}>${stream.next_offset === "0" ? "never" : age(stream.last_append_at, now)}</dd></div>
      <div><dt>In the object store</dt><dd title=${`${count(waiting)} not there yet`}>${waiting ? `all but ${count(waiting)}` : "everything"}</dd></div>
      ${stream.expires_at && html`<div><dt>Ends</dt><dd>${ends(stream)}</dd></div>`}
      <div class="fresh ${up ? "" : "stale"}"><dt>As of</dt><dd>${up ? "now" : age(new Date(fresh).toISOString(), now)}</dd></div>
    </dl>
  `;
}

