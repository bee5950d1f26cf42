// Builds a clause of what the schema declares.
import { html, useSignal } from "../lib/html.js";
import { and, OPERATORS, operatorsOf } from "../lib/query.js";

export function Builder({ search, query, use }) {
  const fields = Object.entries(search.fields).filter(([, field]) => operatorsOf(field).length);
  const state = useSignal({ field: fields[0]?.[0], operator: null, value: "" });
  const { field, value } = state.value;
  if (!fields.length) return html`<p class="quiet small">No field of the schema allows a clause.</p>`;
  const known = operatorsOf(search.fields[field]);
  const operator = known.includes(state.value.operator) ? state.value.operator : known[0];
  const { bare } = OPERATORS[operator];
  const add = (event) => {
    event.preventDefault();
    if (!bare && !value.trim()) return;
    use(and(query, OPERATORS[operator].build(field, value.trim())));
    state.value = { ...state.value, value: "" };
  };
  const { kind } = search.fields[field];
  return html`
    <form class="builder" onSubmit=${add}>
      <label class="field"><span>Field</span>
        <select value=${field} onChange=${(event) => (state.value = { field: event.target.value, operator: null, value: "" })}>
          ${fields.map(([each, { kind: of }]) => html`<option value=${each} selected=${each === field}>${each} (${of})</option>`)}
        </select>
      </label>
      <label class="field"><span>Condition</span>
        <select value=${operator} onChange=${(event) => (state.value = { ...state.value, operator: event.target.value })}>
          ${known.map((each) => html`<option value=${each} selected=${each === operator}>${OPERATORS[each].text}</option>`)}
        </select>
      </label>
      ${!bare && html`<label class="field grow"><span>Value</span>
        ${kind === "bool"
          ? html`<select value=${value} onChange=${(event) => (state.value = { ...state.value, value: event.target.value })}><option value="">choose</option><option>true</option><option>false</option></select>`
          : html`<input autocomplete="off" spellcheck="false" placeholder=${kind === "date" ? "2026-03-25T10:00:00Z" : ""} value=${value} onInput=${(event) => (state.value = { ...state.value, value: event.target.value })} />`}
      </label>`}
      <button class="plain">Add</button>
    </form>
  `;
}
