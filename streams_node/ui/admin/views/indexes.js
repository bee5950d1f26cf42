// How far the indexes of a stream are.
import { html, useSignal } from "../lib/html.js";
import { asJson, post, streamPath } from "../lib/api.js";
import { age, bytes, count, duration, plural } from "../lib/format.js";
import { useLoad, useNow } from "../lib/load.js";
import { Dialog, Trouble } from "../parts/dialog.js";
import { Empty } from "../parts/states.js";

const ASK_MS = 5000;
const MEANING = {
  exact: "values of fields",
  col: "columns: ranges, sorting",
  fts: "words of texts",
  agg: "rollups over time",
  mblk: "metrics",
};

export function Indexes({ name, data }) {
  const status = data.index_status;
  const asking = useSignal(false);
  const said = useSignal(null);
  useNow(5000);
  const families = [...status.search_families, ...(status.routing_key_index.configured ? [{ ...status.routing_key_index, family: "routing keys", fields: [], covered_segment_count: status.routing_key_index.indexed_segment_count }] : [])];
  const total = status.segments.total_count;
  if (!families.length)
    return html`<div class="pane"><${Empty} title="Nothing to index"><p>The schema declares neither searchable fields nor a routing key.</p><//></div>`;
  const behind = families.filter((each) => !each.fully_indexed_uploaded_segments).length;
  return html`
    <div class="pane">
      <div class="row">
        <h2>${!total ? "Nothing is sealed yet" : behind ? `${plural(behind, "index is", "indexes are")} behind` : "Everything sealed is indexed"}</h2>
        <span class="grow"></span>
        <button class="plain" onClick=${() => (asking.value = true)}>Index now…</button>
      </div>
      <p class="quiet">Nothing is missing from answers meanwhile: what is not indexed is looked through, which takes longer. Small streams are not worth an index and stay without one until you ask for it.</p>
      <div role="status">${said.value && (behind || !said.value.waits) && html`<div class="notice good"><strong>Asked for.</strong><p>${said.value.text}</p></div>`}</div>
      ${behind > 0 && html`<${Drivers} />`}
      <section class="card wide-table" tabindex="0" role="region" aria-label="Index families">
        <table>
          <thead><tr><th scope="col">Index</th><th scope="col">Sealed parts covered</th><th scope="col" class="number">Behind</th><th scope="col" class="number">Size</th><th scope="col" class="number">Objects</th><th scope="col">Updated</th></tr></thead>
          <tbody>${families.map((each) => html`
            <tr>
              <td class="id"><strong>${each.family}</strong> <span class="quiet small">${MEANING[each.family] ?? ""}</span>${each.fields?.length ? html`<div class="small quiet">${each.fields.join(", ")}</div>` : null}</td>
              <td class="covered"><${Meter} part=${each.covered_segment_count} whole=${total} /><span class="small">${count(each.covered_segment_count)} of ${count(total)}</span>${each.stale_segment_count ? html` <span class="tag warn">${each.stale_segment_count} of an old schema</span>` : null}</td>
              <td class="number">${each.lag_segments ? html`${plural(each.lag_segments, "part")}${each.lag_ms ? html`<div class="small quiet">${duration(each.lag_ms)}</div>` : null}` : "–"}</td>
              <td class="number">${bytes(each.bytes_at_rest)}</td>
              <td class="number">${count(each.object_count)}</td>
              <td>${each.updated_at ? age(each.updated_at) : "never"}</td>
            </tr>`)}</tbody>
        </table>
      </section>
      <p class="quiet small">Catalogue generation ${count(status.manifest.generation)}, plan ${count(status.desired_index_plan_generation)}; last upload ${status.manifest.last_uploaded_at ? age(status.manifest.last_uploaded_at) : "never"}.</p>
      ${asking.value && html`<${Rebuild} name=${name} close=${() => (asking.value = false)} done=${(view) => (said.value = told(view))} />`}
    </div>
  `;
}

// Who would do it: the node says so to operators, and others do not see it.
function Drivers() {
  const now = useNow(ASK_MS);
  const { data } = useLoad((signal) => asJson("/v1/server/_details", { signal }).catch(() => null), [now]);
  if (!data) return null;
  const { claims, due_streams: due, driver } = data.runtime.indexing;
  const problems = data.problems.filter(({ code }) => code.startsWith("index_"));
  return html`
    <p class="small quiet">${claims ? `${plural(claims, "piece")} of work ${claims === 1 ? "is" : "are"} with index drivers.` : driver === "off" ? "This node starts no index driver, and none has work of it now." : "No index driver is at work now."} ${plural(due, "stream waits", "streams wait")} on this node.</p>
    ${problems.map((each) => html`<div class="notice warn" key=${each.code}><strong>${each.message}</strong><p>${each.hint}</p></div>`)}
  `;
}

const Meter = ({ part, whole }) => html`<div class="meter" role="img" aria-label=${`${part} of ${whole}`}><i style=${{ width: `${whole ? (100 * part) / whole : 0}%` }}></i></div>`;

function told(view) {
  const parts = Object.entries(view.entries).filter(([, entries]) => entries);
  if (!parts.length) return { text: "There was nothing left to index." };
  const all = parts.map(([family, entries]) => `${family}: ${plural(entries, "entry", "entries")}`).join("; ");
  return { text: `${all}. It begins when an index driver is free.`, waits: true };
}

function Rebuild({ name, close, done }) {
  const anew = useSignal(false);
  const state = useSignal({});
  const run = async (event) => {
    event.preventDefault();
    state.value = { busy: true };
    try {
      done(await post(`${streamPath(name)}/_index/rebuild`, anew.value ? { anew: true } : {}));
      close();
    } catch (error) {
      state.value = { error };
    }
  };
  return html`
    <${Dialog} title="Index now" close=${close}>
      <form onSubmit=${run}>
        <label class="choice"><input type="radio" name="how" checked=${!anew.value} onChange=${() => (anew.value = false)} /><span>The rest<small class="quiet">All that is sealed and not indexed, however little it is</small></span></label>
        <label class="choice"><input type="radio" name="how" checked=${anew.value} onChange=${() => (anew.value = true)} /><span>Everything anew<small class="quiet">Searches look through the entries until it is done</small></span></label>
        <${Trouble} error=${state.value.error} />
        <footer><button type="button" class="plain" onClick=${close}>Cancel</button><button disabled=${state.value.busy}>Index</button></footer>
      </form>
    <//>
  `;
}
