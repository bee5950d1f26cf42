// The node: what is wrong with it, in sentences, and how it is doing.
import { html, useEffect } from "../lib/html.js";
import { bytes, count, duration, plural, short } from "../lib/format.js";
import { link } from "../lib/link.js";
import { useNow } from "../lib/load.js";
import { place } from "../lib/place.js";
import { streamLink } from "../lib/route.js";
import { levels, means, rates, vitals, watchVitals } from "../lib/vitals.js";
import { Chart } from "../parts/chart.js";
import { Failure, Icon, Loading, Said } from "../parts/states.js";

const CHARTS = [
  { title: "Entries appended", unit: "/s", of: (all) => rates(all, "streams_appended_entries_total"), show: short },
  { title: "Appended", unit: "/s", of: (all) => rates(all, "streams_append_bytes_total"), show: bytes },
  { title: "Read", unit: "/s", of: (all) => rates(all, "streams_read_bytes_total"), show: bytes },
  { title: "A commit takes", unit: "", of: (all) => means(all, "streams_commit_seconds", 1000), show: duration },
  { title: "Not in the object store", unit: "", of: (all) => levels(all, "streams_backlog_bytes"), show: bytes },
  { title: "Waits to be indexed", unit: "", of: (all) => levels(all, "streams_index_due_bytes"), show: bytes },
  { title: "Memory", unit: "", of: (all) => levels(all, "process_resident_memory_bytes"), show: bytes },
  { title: "Event loop is late by", unit: "", of: (all) => means(all, "streams_loop_lag_seconds", 1000), show: duration },
  { title: "Connections", unit: "", of: (all) => levels(all, "streams_connections"), show: short },
];

export function Node() {
  useEffect(watchVitals, []);
  const { kind, details, ready, samples, error, at } = vitals.value;
  const now = useNow(1000);
  if (!samples.length) {
    return html`<div class="pane"><h1>Overview</h1>${kind === "error" ? html`<${Failure} error=${error} title="The node could not be asked" />` : html`<${Loading} what="Asking the node" rows=${8} />`}</div>`;
  }
  const last = samples.at(-1).values;
  const old = !link.value.up || kind === "error";
  return html`
    <div class="pane">
      <div class="row">
        <h1>Overview</h1>
        <span class="tag">version ${place.version}</span>
        <span class="quiet small">up for ${duration(1000 * (last.streams_uptime_seconds ?? 0))}</span>
        <span class="grow"></span>
        <span class="small ${old ? "trouble" : "quiet"}">${old ? `as of ${duration(now - at)} ago` : "live, every 2 s"}</span>
      </div>
      ${kind === "error" && html`<${Failure} error=${error} title="These numbers are old" />`}
      <${Problems} details=${details} ready=${ready} values=${last} />
      <div class="cards charts">
        ${CHARTS.map((each) => {
          const data = each.of(samples);
          const value = data[1].at(-1);
          return html`
            <section class="card" key=${each.title}>
              <h3>${each.title}</h3>
              <p class="big">${value == null ? "–" : each.show(value)}<small>${value == null ? "" : each.unit}</small></p>
              <${data[0].length < 2 ? Waiting : Chart} data=${data} height=${84} show=${each.show} label=${`${each.title}, now ${value == null ? "unknown" : each.show(value) + each.unit}`} />
            </section>
          `;
        })}
      </div>
      ${details && html`<${Parts} runtime=${details.runtime} limits=${details.configured_limits} />`}
    </div>
  `;
}

const Waiting = ({ height }) => html`<div class="chart quiet small" style=${{ height: `${height}px` }}>Measuring…</div>`;

function Problems({ details, ready, values }) {
  const found = details ? details.problems : fromMetrics(ready, values);
  if (!found.length) return html`<div class="notice good" role="status"><strong>All is well.</strong><p>Writes are taken, and what was written reaches the object store.</p></div>`;
  return html`<ul class="problem-list" role="status" aria-label="Problems">
    ${found.map((each) => html`
      <li class="notice ${each.severity === "error" ? "bad" : "warn"}" key=${each.code}>
        <strong><${Icon} name="alert" size=${15} /> <${Said} text=${each.message} /></strong>
        ${each.hint && html`<p><${Said} text=${each.hint} /></p>`}
      </li>`)}
  </ul>`;
}

// Where the node does not say it itself.
function fromMetrics(ready, values) {
  const found = (ready.reasons ?? []).map((message) => ({ code: message, severity: "error", message: `Writes are refused: ${message}.` }));
  if (values.streams_fenced) found.push({ code: "fenced", severity: "error", message: "Another node has taken the bucket over.", hint: "Nothing of this node is published any more." });
  if (values.streams_stuck_streams_total) found.push({ code: "stuck", severity: "warning", message: `${plural(values.streams_stuck_streams_total, "stream")} cannot be sealed.` });
  if (values.streams_upload_lag_seconds > 180) found.push({ code: "lag", severity: "warning", message: `The oldest entry has waited ${duration(1000 * values.streams_upload_lag_seconds)} for the object store.` });
  return found;
}

function Parts({ runtime }) {
  const { memory, ingest_queue: queue, local_backpressure: backlog, tiers, indexing, disk, live, top_streams: top } = runtime;
  return html`
    <div class="cards">
      <section class="card"><h3>Memory</h3><p class="big">${bytes(memory.last_rss_bytes)}<small> ${memory.state}</small></p>
        <dl class="rows">
          <${Row} term="Highest so far">${bytes(memory.max_rss_bytes)}<//>
          <${Row} term="Limit">${memory.pressure_limit_bytes ? bytes(memory.pressure_limit_bytes) : "none"}<//>
        </dl></section>
      <section class="card"><h3>Disk</h3><p class="big">${bytes(disk.free_bytes)}<small> free</small></p>
        <dl class="rows">
          <${Row} term="Of">${bytes(disk.total_bytes)}<//>
          <${Row} term="Database">${bytes(disk.database_bytes)}<//>
          <${Row} term="Writes stop below">${bytes(disk.floor_bytes)}<//>
        </dl></section>
      <section class="card"><h3>Object store <span class="tag">${tiers.store}</span></h3><p class="big">${bytes(backlog.current_bytes)}<small> not there yet</small></p>
        <dl class="rows">
          <${Row} term="Oldest of that">${duration(backlog.oldest_ms)}<//>
          <${Row} term="At most">${bytes(backlog.max_bytes)}<//>
          <${Row} term="Catalogue generation">${count(tiers.generation)}<//>
        </dl></section>
      <section class="card"><h3>Indexing <span class="tag">driver ${indexing.driver}</span></h3><p class="big">${count(indexing.due_streams)}<small> ${indexing.due_streams === 1 ? "stream" : "streams"} due</small></p>
        <dl class="rows">
          <${Row} term="To index">${plural(indexing.due_entries, "entry", "entries")}, ${bytes(indexing.due_bytes)}<//>
          <${Row} term="At it now">${plural(indexing.claims, "claim")}<//>
          <${Row} term="Objects that failed">${count(indexing.failed_objects)}<//>
        </dl></section>
      <section class="card"><h3>Readers</h3><p class="big">${count(live.connections)}<small> connections</small></p>
        <dl class="rows">
          <${Row} term="Event streams">${count(live.sse)}<//>
          <${Row} term="Long-polls">${count(live.long_poll)}<//>
          <${Row} term="Appends queued">${count(queue.requests)}, ${bytes(queue.bytes)}<//>
        </dl></section>
      <section class="card"><h3>Largest on this disk</h3>
        <${Top} streams=${top.local_storage_bytes} tab="storage" show=${(each) => bytes(each.bytes)} /></section>
      <section class="card"><h3>Most appends <span class="quiet">last minute</span></h3>
        <${Top} streams=${top.appends ?? []} tab="producers" show=${often} /></section>
      <section class="card"><h3>Most reads <span class="quiet">last minute</span></h3>
        <${Top} streams=${top.reads ?? []} tab="messages" show=${often} /></section>
    </div>
  `;
}

const SHOWN = 5;

const often = ({ per_second: rate }) => (rate >= 1 ? `${short(rate)}/s` : `${short(60 * rate)}/min`);

const Top = ({ streams, tab, show }) =>
  streams.length
    ? html`<dl class="rows">${streams.slice(0, SHOWN).map((each) => html`<div key=${each.stream}><dt class="cut"><a href=${streamLink(each.stream, tab)}>${each.stream}</a></dt><dd>${show(each)}</dd></div>`)}</dl>`
    : html`<p class="quiet">Nothing now.</p>`;

const Row = ({ term, children }) => html`<div><dt>${term}</dt><dd>${children}</dd></div>`;
