// Search: a query, typed or built; the hits, page by page; and always what the answer rests on.
import { html, useEffect, useSignal } from "../lib/html.js";
import { post, streamPath } from "../lib/api.js";
import { age, count, duration, moment, plural } from "../lib/format.js";
import { returns } from "../lib/link.js";
import { useNow } from "../lib/load.js";
import { decode } from "../lib/offsets.js";
import { everything } from "../lib/query.js";
import { note, route, streamLink } from "../lib/route.js";
import { Empty, Failure, Icon, Loading, sentence } from "../parts/states.js";
import { Builder } from "./builder.js";
import { Histogram } from "./histogram.js";
import { Inspector } from "./inspector.js";

const PAGE = 50;
const HITS_MAX = 2000;
const COLUMNS_MAX = 6;

export function Search({ name, data }) {
  const search = data.schema.search;
  if (!search) return html`<${Unsearchable} name=${name} data=${data} />`;
  return html`<${Searching} name=${name} data=${data} search=${search} />`;
}

function Unsearchable({ name, data: { stream, schema } }) {
  if (stream.content_type !== "application/json") return html`<${Empty} title="This stream cannot be searched" icon="search"><p>Only streams of JSON messages can.</p><//>`;
  const late = !schema.currentVersion && stream.next_offset !== "0";
  return html`<${Empty} title=${late ? "This stream cannot be searched" : "This stream cannot be searched yet"} icon="search">
    ${late
      ? html`<p>It has no schema, and a first one needs a stream without entries. To search such messages, declare a schema with <code>search</code> on a new stream and append them there.</p>`
      : html`<p>Its schema does not say which fields its messages have. Declare them under <code>search</code>, and everything that is stored can be found.</p>`}
    <a class="button" href=${streamLink(name, "schema")}>Go to the schema</a>
  <//>`;
}

function Searching({ name, data, search }) {
  const { params } = route.value;
  const q = params.q ?? "";
  const sort = params.sort ?? "";
  const typed = useSignal(q);
  const found = useSignal({ kind: "idle" });
  const picked = useSignal(null);
  const building = useSignal(false);
  const asked = q || everything(search);
  useEffect(() => {
    typed.value = q;
    picked.value = null;
    if (!asked) {
      found.value = { kind: "idle" };
      return undefined;
    }
    const stop = new AbortController();
    void ask({ name, q: asked, sort, found, signal: stop.signal });
    return () => stop.abort();
  }, [name, q, sort, returns.value]);
  const submit = (event) => {
    event.preventDefault();
    run(typed.value.trim());
  };
  const run = (query) => {
    if (query === q) void ask({ name, q: query || everything(search), sort, found });
    else note({ q: query });
  };
  const sortable = Object.entries(search.fields).filter(([, each]) => each.column || each.exact);
  const error = found.value.kind === "error" ? found.value.error : null;
  return html`
    <div class="messages ${picked.value ? "with-inspector" : ""}">
      <div class="search-pane">
        <form class="query" role="search" onSubmit=${submit}>
          <label class="search-field grow">
            <${Icon} name="search" size=${16} />
            <span class="visually-hidden">Query</span>
            <input class="mono" type="search" spellcheck="false" autocomplete="off" placeholder=${`For example ${example(search)}`} aria-invalid=${error?.fields?.position !== undefined ? "true" : null} aria-describedby="query-said"
              value=${typed.value} onInput=${(event) => (typed.value = event.target.value)} />
          </label>
          <button>Search</button>
          <button type="button" class="plain" aria-expanded=${building.value ? "true" : "false"} onClick=${() => (building.value = !building.value)}>Filter</button>
          <label class="sort">
            <span class="visually-hidden">Order</span>
            <select value=${sort} onChange=${(event) => note({ sort: event.target.value })}>
              <option value="">Default order</option>
              ${sortable.flatMap(([field]) => ["desc", "asc"].map((way) => html`<option value=${`${field}:${way}`} selected=${sort === `${field}:${way}`}>${field}, ${way === "asc" ? "up" : "down"}</option>`))}
              <option value="offset:desc" selected=${sort === "offset:desc"}>newest appended</option>
              <option value="offset:asc" selected=${sort === "offset:asc"}>oldest appended</option>
            </select>
          </label>
        </form>
        <div id="query-said" aria-live="polite">${error?.fields?.position !== undefined && html`<${Pointer} query=${asked} error=${error} />`}</div>
        ${building.value && html`<${Builder} search=${search} query=${typed.value} use=${(query) => ((typed.value = query), run(query))} />`}
        <${Histogram} name=${name} search=${search} q=${q} use=${run} />
        <${Results} ...${{ found, name, search, q, asked, sort, picked, error, end: Number(data.stream.next_offset) }} />
      </div>
      ${picked.value && html`<${Inspector} name=${name} stream=${data.stream} seq=${picked.value.seq} choose=${(seq) => (picked.value = { seq })} close=${() => (picked.value = null)} />`}
    </div>
  `;
}

async function ask({ name, q, sort, found, after = null, signal }) {
  const old = found.peek();
  found.value = after ? { ...old, more: true } : { kind: "asking", hits: old.hits, answer: old.answer, at: old.at };
  try {
    const request = { q, size: PAGE, highlight: true, ...(sort ? { sort: [sort] } : {}), ...(after ? { search_after: after } : {}) };
    const answer = await post(`${streamPath(name)}/_search`, request, { signal, also: [408] });
    if (signal?.aborted) return;
    found.value = { kind: "ready", answer, hits: after ? [...old.hits, ...answer.hits] : answer.hits, at: Date.now() };
  } catch (error) {
    if (!signal?.aborted && error.code !== "unreachable") found.value = { kind: "error", error, hits: old.hits };
  }
}

function Pointer({ query, error }) {
  return html`<p class="trouble pointer"><code>${query}<br /><span aria-hidden="true">${" ".repeat(error.fields.position)}↑</span></code> ${sentence(error.message)}</p>`;
}

const example = (search) => {
  const field = Object.entries(search.fields).find(([, each]) => each.kind === "keyword" && each.exact);
  return field ? `${field[0]}:value` : "a few words";
};

function Results({ found, name, search, q, asked, sort, picked, error, end }) {
  const { kind, answer, hits } = found.value;
  if (kind === "idle") return html`<${Empty} title="What are you looking for?" icon="search">Words are looked for in ${(search.defaultFields ?? []).map((each) => each.field).join(", ") || "no field by default"}; <code>field:value</code> in a field.<//>`;
  if (error) return error.fields?.position === undefined ? html`<${Failure} error=${error} retry=${() => ask({ name, q: asked, sort, found })} title="The search failed" />` : null;
  if (!answer) return html`<${Loading} what="Searching" rows=${6} />`;
  return html`
    <div class="results" aria-busy=${kind === "asking" ? "true" : "false"}>
      <${Coverage} answer=${answer} shown=${hits.length} everything=${!q} />
      <${Newer} at=${found.value.at} since=${end - (decode(answer.coverage.stream_head_offset)?.seq ?? end)} again=${() => ask({ name, q: asked, sort, found })} />
      ${hits.length ? html`<${Hits} hits=${hits} search=${search} picked=${picked} />` : html`<${Empty} title="Nothing matches" icon="search">${answer.coverage.complete ? "All that is stored was looked at." : "Not everything was looked at: see above."}<//>`}
      ${answer.next_search_after &&
      (hits.length < HITS_MAX
        ? html`<button class="plain more" disabled=${found.value.more} onClick=${() => ask({ name, q: asked, sort, found, after: answer.next_search_after })}>${found.value.more ? "Searching…" : "More hits"}</button>`
        : html`<p class="quiet small more">${count(HITS_MAX)} hits are shown; a narrower query shows others.</p>`)}
    </div>
  `;
}

// What the answer rests on: how much was looked at, up to where, and how.
function Coverage({ answer, shown, everything: all }) {
  const { coverage, total, took_ms: took, timed_out: late } = answer;
  const missing = coverage.possible_missing_events_upper_bound;
  const head = decode(coverage.stream_head_offset)?.seq;
  const how = [
    coverage.indexed_segments ? `${plural(coverage.indexed_segments, "part")} by index` : "",
    coverage.scanned_segments ? `${plural(coverage.scanned_segments, "part")} looked through` : "",
    coverage.scanned_tail_docs ? `${plural(coverage.scanned_tail_docs, "recent entry", "recent entries")}` : "",
  ].filter(Boolean);
  const more = total.relation === "gte" && Number(total.value) <= shown;
  return html`
    <div class="coverage ${coverage.complete ? "" : "partial"}" role="status">
      <strong>${all ? "Everything" : `${count(Math.max(total.value, shown))}${total.relation === "gte" ? (more ? " or more" : "+") : ""} ${total.value === 1 ? "hit" : "hits"}`}</strong>
      <span class="tag ${coverage.complete ? "good" : "warn"}">${coverage.complete ? "complete" : "not complete"}</span>
      <span class="quiet">${coverage.complete ? (total.relation === "eq" ? (head === 1 ? "its one entry looked at" : `all ${count(head)} entries looked at`) : `nothing left out so far of ${plural(head, "entry", "entries")}`) : `${plural(missing, "entry", "entries")} may be missing${late ? ": the time was up" : ""}${coverage.oldest_omitted_append_at ? `, the oldest of ${moment(coverage.oldest_omitted_append_at)}` : ""}`}</span>
      <span class="grow"></span>
      <span class="quiet small">${how.join(", ")}${how.length ? " · " : ""}${duration(took)}</span>
    </div>
  `;
}

// An answer is of its moment; what came after it is said, and looked at when somebody wants it.
function Newer({ at, since, again }) {
  const now = useNow(2000);
  if (since <= 0) return null;
  return html`<p class="newer small" role="status">As of ${age(new Date(at).toISOString(), now)}; ${plural(since, "entry has", "entries have")} come since. <button class="plain small-button" onClick=${again}>Search again</button></p>`;
}

function Hits({ hits, search, picked }) {
  const order = [search.primaryTimestampField, ...Object.keys(search.fields).filter((each) => each !== search.primaryTimestampField)];
  const columns = order.filter((each) => each in search.fields && hits.some((hit) => hit.fields[each] !== undefined)).slice(0, COLUMNS_MAX);
  return html`
    <div class="wide-table hits" tabindex="0" role="region" aria-label="Hits">
      <table>
        <thead><tr><th scope="col">Entry</th>${columns.map((each) => html`<th scope="col">${each}</th>`)}</tr></thead>
        <tbody>
          ${hits.map((hit) => {
            const seq = decode(hit.offset).seq - 1;
            const open = () => (picked.value = { seq }); // it is read as it was sent: the hit is what a parser has made of it
            return html`
              <tr key=${hit.offset} class=${picked.value?.seq === seq ? "chosen" : ""} onClick=${open}>
                <td><button class="link" onClick=${open} aria-label=${`Show entry ${seq}`}>${seq}</button></td>
                ${columns.map((each) => html`<td><${Cell} value=${hit.fields[each]} marked=${hit.highlight?.[each]} kind=${search.fields[each].kind} /></td>`)}
              </tr>
            `;
          })}
        </tbody>
      </table>
    </div>
  `;
}

function Cell({ value, marked, kind }) {
  if (marked?.length) return marked.map((piece) => html`<${Marked} ...${piece} />`);
  if (value === undefined) return html`<span class="quiet">–</span>`;
  if (kind === "date" && typeof value === "string") return html`<time>${value.replace("T", " ").replace("Z", "")}</time>`;
  return typeof value === "string" ? value : JSON.stringify(value);
}

function Marked({ text, marks }) {
  const out = [];
  let last = 0;
  for (const [from, to] of marks) {
    out.push(text.slice(last, from), html`<mark>${text.slice(from, to)}</mark>`);
    last = to;
  }
  return html`<span>${out}${text.slice(last)}</span>`;
}
