// Where the bytes of a stream are, and what it asks of the object store.
import { html, useSignal } from "../lib/html.js";
import { request, streamPath } from "../lib/api.js";
import { age, bytes, count, ends, moment, plural, straight } from "../lib/format.js";
import { useNow } from "../lib/load.js";
import { streamLink } from "../lib/route.js";
import { Trouble } from "../parts/dialog.js";

const WORDS = {
  segments_bytes: "Entries", indexes_bytes: "Indexes", manifest_and_meta_bytes: "Catalogue and schema",
  wal_retained_bytes: "Log", pending_tail_bytes: "of it not sealed", pending_sealed_segment_bytes: "Sealed, on the way",
  segment_cache_bytes: "Copies of entries", routing_index_cache_bytes: "Copies of routing keys", exact_index_cache_bytes: "Copies of exact indexes",
  lexicon_index_cache_bytes: "Copies of lexicons", companion_cache_bytes: "Copies of companions",
};

export function Storage({ name, data }) {
  const now = useNow(2000);
  const { stream, storage, object_store_requests: requests } = data;
  const state = useSignal({});
  const flush = async () => {
    state.value = { busy: true };
    try {
      const response = await request(`${streamPath(name)}/_flush`, { method: "POST" });
      state.value = { said: response.status === 202 ? "It has begun and goes on." : "Everything is in the object store." };
    } catch (error) {
      state.value = { error };
    }
  };
  const fork = stream.forked_from;
  return html`
    <div class="pane">
      ${fork && html`<p class="quiet">A fork: its first ${plural(fork.first_own_offset, "entry is", "entries are")} those of <a href=${streamLink(fork.stream, "storage")}>${straight(fork.stream)}</a> and kept there. What follows is about its own.</p>`}
      <div class="cards two">
        <${Place} title="Object store" total=${storage.object_storage.total_bytes} rows=${storage.object_storage} />
        <${Place} title="This node's disk" total=${storage.local_storage.total_bytes} rows=${storage.local_storage} />
        <section class="card">
          <h3>Writing</h3>
          <dl class="rows">
            <${Row} term="Entries">${count(stream.next_offset)}<//>
            <${Row} term="Last append">${stream.next_offset === "0" ? "never" : html`<span title=${moment(stream.last_append_at)}>${age(stream.last_append_at, now)}</span>`}<//>
            <${Row} term="Not in the object store">${plural(stream.pending_rows, "entry", "entries")}, ${bytes(stream.pending_bytes)}<//>
            <${Row} term="Last Stream-Seq">${stream.stream_seq === null ? html`<span class="quiet">none sent</span>` : html`<code>${stream.stream_seq}</code>`}<//>
            <${Row} term="Epoch">${stream.epoch}<//>
          </dl>
        </section>
        <section class="card">
          <h3>Sealed parts</h3>
          <p class="big">${count(stream.segment_count)} <small>${count(stream.uploaded_segment_count)} uploaded</small></p>
          <dl class="rows">
            <${Row} term="Sealed through entry">${Number(stream.sealed_through) < 0 ? "none" : count(stream.sealed_through)}<//>
            <${Row} term="Last sealed">${stream.last_segment_cut_at ? age(stream.last_segment_cut_at, now) : "never"}<//>
            <${Row} term="Created">${moment(stream.created_at)}<//>
            <${Row} term="Ends">${ends(stream)}<//>
          </dl>
          <button class="plain" disabled=${state.value.busy} onClick=${flush}>Upload now</button>
          <div role="status" class="small done">${state.value.said}</div><${Trouble} error=${state.value.error} />
        </section>
      </div>
      <section class="card wide-table" tabindex="0" role="region" aria-label="Requests to the object store">
        <h3>Requests to the object store for this stream</h3>
        <${Requests} requests=${requests} />
      </section>
    </div>
  `;
}

const Row = ({ term, children }) => html`<div><dt>${term}</dt><dd>${children}</dd></div>`;

function Place({ title, total, rows }) {
  const shown = Object.keys(WORDS).filter((each) => each in rows && (Number(rows[each]) || each.startsWith("segments") || each.startsWith("wal")));
  const most = Math.max(1, ...shown.map((each) => Number(rows[each])));
  return html`
    <section class="card">
      <h3>${title}</h3>
      <p class="big">${bytes(total)}</p>
      <dl class="rows">${shown.map((each) => html`<div><dt>${WORDS[each]}</dt><dd>${bytes(rows[each])}</dd><div class="meter" aria-hidden="true"><i style=${{ width: `${(100 * Number(rows[each])) / most}%` }}></i></div></div>`)}</dl>
    </section>
  `;
}

function Requests({ requests }) {
  const artifacts = (requests.by_artifact ?? []).filter((row) => Number(row.puts) + Number(row.reads) + Number(row.deletes));
  const names = ["puts", "gets", "heads", "lists", "deletes"].filter((each) => each in requests);
  if (!artifacts.length) return html`<p class="quiet">None so far.</p>`;
  return html`<table>
    <thead><tr><th scope="col">Artifact</th>${names.map((each) => html`<th scope="col" class="number">${each}</th>`)}</tr></thead>
    <tbody>${artifacts.map((row) => html`<tr><td>${row.artifact}</td>${names.map((each) => html`<td class="number">${count(row[each])}</td>`)}</tr>`)}</tbody>
  </table>`;
}
