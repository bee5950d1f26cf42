// The schema of a stream: what it says, and changing it.
import { html, useSignal } from "../lib/html.js";
import { post, streamPath } from "../lib/api.js";
import { problemOf } from "../lib/jsontext.js";
import { Copy } from "../parts/copy.js";
import { Trouble } from "../parts/dialog.js";
import { Empty, sentence } from "../parts/states.js";
import { Tree } from "../parts/tree.js";

const MEMBERS = ["schema", "lens", "routingKey", "search"];
const KINDS = ["keyword", "text", "integer", "float", "date", "bool"];
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

export function Schema({ name, data }) {
  const registry = data.schema;
  const editing = useSignal(null);
  if (data.stream.content_type !== "application/json") return html`<${Empty} title="No schema">Only streams of JSON messages have one; this one is <code>${data.stream.content_type}</code>.<//>`;
  const none = !registry.currentVersion;
  const start = () => (editing.value = JSON.stringify(none ? FIRST : { search: registry.search ?? FIRST.search }, null, 2));
  return html`
    <div class="pane">
      ${editing.value !== null
        ? html`<${Editor} name=${name} registry=${registry} entries=${data.stream.next_offset} text=${editing} />`
        : none && !registry.search && !registry.routingKey
          ? html`<${Empty} title="No schema yet"><p>With one, the node takes only messages that fit, and their fields can be searched. The first schema needs a stream without entries.</p><button onClick=${start}>Write one</button><//>`
          : html`<${Shown} registry=${registry} start=${start} />`}
    </div>
  `;
}

function Shown({ registry, start }) {
  const { search } = registry;
  return html`
    <div class="row">
      <h2>Version ${registry.currentVersion}</h2>
      ${registry.routingKey && html`<span class="tag">routing key at ${registry.routingKey.jsonPointer}${registry.routingKey.required ? ", required" : ""}</span>`}
      <span class="grow"></span>
      <${Copy} label="Copy" text=${JSON.stringify(registry, null, 2)} />
      <button onClick=${start}>Change</button>
    </div>
    ${search && html`
      <section class="card wide-table" tabindex="0" role="region" aria-label="Searchable fields">
        <table>
          <thead><tr><th scope="col">Field</th><th scope="col">Kind</th><th scope="col">Where</th><th scope="col">What it allows</th></tr></thead>
          <tbody>${Object.entries(search.fields).map(([field, each]) => html`
            <tr><td><code>${field}</code> ${field === search.primaryTimestampField && html`<span class="tag accent">time</span>`}</td><td>${each.kind}</td>
            <td><code>${each.bindings.map(({ jsonPointer }) => jsonPointer).join(", ")}</code></td>
            <td>${["exact", "prefix", "column", "exists", "sortable", "aggregatable", "positions"].filter((flag) => each[flag]).map((flag) => html`<span class="tag">${flag}</span> `)}</td></tr>`)}</tbody>
        </table>
      </section>
      ${search.rollups && html`<section class="card"><h3>Rollups</h3>${Object.entries(search.rollups).map(([rollup, each]) => html`<p><code>${rollup}</code> every ${each.intervals.join(", ")}${each.dimensions?.length ? `, by ${each.dimensions.join(", ")}` : ""}: ${Object.keys(each.measures).join(", ")}</p>`)}</section>`}
    `}
    <section class="card"><h3>The whole registry</h3><${Tree} value=${registry} /></section>
  `;
}

function Editor({ name, registry, entries, text }) {
  const state = useSignal({});
  const problems = check(text.value, registry, entries);
  const save = async (event) => {
    event.preventDefault();
    state.value = { busy: true };
    try {
      await post(`${streamPath(name)}/_schema`, JSON.parse(text.value));
      text.value = null; // the details bring the new one
    } catch (error) {
      state.value = { error };
    }
  };
  return html`
    <form class="editor" onSubmit=${save}>
      <div class="row"><h2>${registry.currentVersion ? "Change the schema" : "First schema"}</h2><span class="grow"></span><span class="tag ${problems.length ? "warn" : "good"}" role="status">${problems.length ? `${problems.length} to mend` : "well formed"}</span></div>
      <label class="field"><span>Any of <code>schema</code>, <code>lens</code>, <code>routingKey</code> and <code>search</code>; what is left out stays as it is</span>
        <textarea rows="24" autofocus spellcheck="false" aria-invalid=${problems.length ? "true" : null} aria-describedby="schema-said" value=${text.value}
          onInput=${(event) => ((text.value = event.target.value), (state.value = {}))}></textarea>
      </label>
      <ul id="schema-said" class="problems small" aria-live="polite">${problems.map((each) => html`<li class="trouble">${sentence(each)}</li>`)}</ul>
      <${Trouble} error=${state.value.error} />
      <div class="row"><span class="grow"></span><button type="button" class="plain" onClick=${() => (text.value = null)}>Cancel</button><button disabled=${problems.length > 0 || state.value.busy}>Store</button></div>
    </form>
  `;
}

// What can be seen before the node is asked; it has the last word.
export function check(text, registry, entries) {
  const wrong = problemOf(text);
  if (wrong) return [wrong];
  const update = JSON.parse(text);
  if (update === null || typeof update !== "object" || Array.isArray(update)) return ["an update is an object"];
  const found = Object.keys(update).filter((each) => !MEMBERS.includes(each)).map((each) => `${each} is not known; use ${MEMBERS.join(", ")}`);
  if (!["schema", "routingKey", "search"].some((each) => each in update)) found.push("at least one of schema, routingKey and search is needed");
  if (update.schema && !registry.currentVersion && entries !== "0") found.push("a first schema needs a stream without entries, and this one has some");
  if (update.schema && registry.currentVersion && !update.lens) found.push("the next version needs a lens from the current one");
  if (update.search && !update.schema && !registry.currentVersion) found.push("search needs a schema");
  return [...found, ...(update.search ? fields(update.search) : [])];
}

function fields(search) {
  const known = search.fields ?? {};
  const found = [];
  if (known[search.primaryTimestampField]?.kind !== "date") found.push("primaryTimestampField has to name a field of kind date");
  for (const [name, field] of Object.entries(known)) {
    if (!KINDS.includes(field?.kind)) found.push(`${name}: kind is one of ${KINDS.join(", ")}`);
    const bindings = Array.isArray(field?.bindings) ? field.bindings : [];
    if (!bindings.length) found.push(`${name}: bindings say where the field is`);
    if (bindings.some(({ jsonPointer }) => typeof jsonPointer !== "string" || (jsonPointer && !jsonPointer.startsWith("/")))) found.push(`${name}: a jsonPointer begins with /`);
  }
  for (const { field } of search.defaultFields ?? []) if (!(field in known)) found.push(`defaultFields names ${field}, which is no field`);
  return found;
}
