// The schema of a stream: what it says, and changing it.
import { html, useSignal } from "../lib/html.js";
import { plural } from "../lib/format.js";
import { Copy } from "../parts/copy.js";
import { Difference } from "../parts/difference.js";
import { Empty } from "../parts/states.js";
import { Tree } from "../parts/tree.js";
import { SchemaEditor } from "./schema_editor.js";

const FIRST = {
  schema: { type: "object" },
  search: {
    primaryTimestampField: "at",
    fields: {
      at: { kind: "date", bindings: [{ version: 1, jsonPointer: "/at" }], exact: true, column: true },
      level: { kind: "keyword", bindings: [{ version: 1, jsonPointer: "/level" }], exact: true, prefix: true },
      message: { kind: "text", analyzer: "unicode_word_v1", bindings: [{ version: 1, jsonPointer: "/message" }] },
    },
    defaultFields: [{ field: "message" }],
    rollups: { over_time: { dimensions: ["level"], intervals: ["1m", "1h"], measures: { records: { kind: "count" } } } },
  },
};

const KEY = { jsonPointer: "/id", required: false };

export function Schema({ name, data }) {
  const registry = data.schema;
  const editing = useSignal(null);
  if (data.stream.content_type !== "application/json") return html`<${Empty} title="No schema">Only streams of JSON messages have one; this one is <code>${data.stream.content_type}</code>.<//>`;
  const none = !registry.currentVersion;
  const late = none && data.stream.next_offset !== "0"; // a routing key is all that it still takes
  const first = late ? { routingKey: registry.routingKey ?? KEY } : FIRST;
  const start = () => (editing.value = JSON.stringify(none ? first : { search: registry.search ?? FIRST.search }, null, 2));
  return html`
    <div class="pane">
      ${editing.value !== null
        ? html`<${SchemaEditor} name=${name} registry=${registry} stream=${data.stream} text=${editing} />`
        : none && !registry.search && !registry.routingKey
          ? html`<${Empty} title="No schema yet"><p>With one, the node takes only messages that fit, and their fields can be searched. The first schema needs a stream without entries${late ? ", and this one has some: what it can still have is a routing key." : "."}</p><button onClick=${start}>${late ? "Declare a routing key" : "Write one"}</button><//>`
          : html`<${Shown} registry=${registry} start=${start} />`}
    </div>
  `;
}

function Shown({ registry, start }) {
  const { search } = registry;
  return html`
    <div class="row">
      <h2>${registry.currentVersion ? `Version ${registry.currentVersion}` : "No schema"}</h2>
      ${registry.routingKey && html`<span class="tag">routing key at ${registry.routingKey.jsonPointer}${registry.routingKey.required ? ", required" : ""}</span>`}
      <span class="grow"></span>
      <${Copy} label="Copy" text=${JSON.stringify(registry, null, 2)} />
      <button onClick=${start}>Change</button>
    </div>
    ${search && html`
      <section class="card wide-table" tabindex="0" role="region" aria-label="Searchable fields">
        <table class="fields">
          <thead><tr><th scope="col">Field</th><th scope="col">Kind</th><th scope="col">Where</th><th scope="col">What it allows</th></tr></thead>
          <tbody>${Object.entries(search.fields).map(([field, each]) => html`
            <tr><td><code>${field}</code> ${field === search.primaryTimestampField && html`<span class="tag accent">time</span>`}</td><td>${each.kind}</td>
            <td><code>${each.bindings.map(({ jsonPointer }) => jsonPointer).join(", ")}</code></td>
            <td>${["exact", "prefix", "column", "exists", "sortable", "aggregatable", "positions"].filter((flag) => each[flag]).map((flag) => html`<span class="tag">${flag}</span> `)}</td></tr>`)}</tbody>
        </table>
      </section>
      ${search.rollups && html`<section class="card"><h3>Rollups</h3>${Object.entries(search.rollups).map(([rollup, each]) => html`<p><code>${rollup}</code> every ${each.intervals.join(", ")}${each.dimensions?.length ? `, by ${each.dimensions.join(", ")}` : ""}: ${Object.keys(each.measures).join(", ")}</p>`)}</section>`}
    `}
    ${Object.keys(registry.schemas).length > 1 && html`<${Versions} registry=${registry} />`}
    <section class="card"><h3>The whole registry</h3><${Tree} value=${registry} /></section>
  `;
}

// What each version has changed of the one before it, and how entries of that one are shown since.
function Versions({ registry }) {
  const chosen = useSignal(registry.currentVersion);
  const version = Math.min(chosen.value, registry.currentVersion);
  const lens = registry.lenses[version - 1];
  const begins = registry.boundaries.find((each) => each.version === version);
  return html`
    <section class="card">
      <div class="row">
        <h3>What has changed</h3>
        <span class="grow"></span>
        <label class="row small"><span>Version</span>
          <select value=${version} onChange=${(event) => (chosen.value = Number(event.target.value))}>
            ${Array.from({ length: registry.currentVersion - 1 }, (_, at) => registry.currentVersion - at).map((each) => html`<option value=${each} selected=${each === version}>${each}</option>`)}
          </select>
        </label>
      </div>
      ${begins && html`<p class="quiet small">It begins with entry ${begins.offset}${lens ? `; older ones are shown through ${plural(lens.ops.length, "operation")} of a lens` : ""}.</p>`}
      <${Difference} before=${pretty(registry.schemas[version - 1])} after=${pretty(registry.schemas[version])} label=${`From version ${version - 1} to ${version}`} />
    </section>
  `;
}

const pretty = (value) => JSON.stringify(value, null, 2);
