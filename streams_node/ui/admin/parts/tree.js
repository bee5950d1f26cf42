// A JSON value as a tree that opens and closes.
import { html, useSignal } from "../lib/html.js";
import { count, straight } from "../lib/format.js";

const OPEN_DEPTH = 3;
const ITEMS_MAX = 100;
const CHARS_MAX = 2000; // of a text, until somebody asks for more

export function Tree({ value }) {
  return html`<div class="tree"><${Value} value=${value} depth=${0} /></div>`;
}

function Value({ name, value, depth }) {
  if (value === null || typeof value !== "object") return html`<div class="leaf"><${Name} name=${name} /><${Scalar} value=${value} /></div>`;
  return html`<${Branch} name=${name} value=${value} depth=${depth} />`;
}

function Branch({ name, value, depth }) {
  const open = useSignal(depth < OPEN_DEPTH);
  const shown = useSignal(ITEMS_MAX);
  const list = Array.isArray(value);
  const entries = list ? value : Object.entries(value);
  const size = entries.length;
  const said = list ? `${size} ${size === 1 ? "item" : "items"}` : `${size} ${size === 1 ? "member" : "members"}`;
  if (!size) return html`<div class="leaf"><${Name} name=${name} /><span class="quiet">${list ? "[]" : "{}"}</span></div>`;
  return html`
    <div class="branch">
      <button class="twig" aria-expanded=${open.value ? "true" : "false"} onClick=${() => (open.value = !open.value)}>
        <span class="arrow" aria-hidden="true">${open.value ? "▾" : "▸"}</span><${Name} name=${name} /><span class="quiet">${list ? "[" : "{"}${open.value ? "" : ` ${said} ${list ? "]" : "}"}`}</span>
      </button>
      ${open.value && html`
        <div class="children">
          ${entries.slice(0, shown.value).map((entry, at) => (list ? html`<${Value} key=${at} name=${at} value=${entry} depth=${depth + 1} />` : html`<${Value} key=${entry[0]} name=${entry[0]} value=${entry[1]} depth=${depth + 1} />`))}
          ${size > shown.value && html`<button class="plain small-button" onClick=${() => (shown.value += ITEMS_MAX)}>${size - shown.value} more</button>`}
        </div>
        <div class="quiet">${list ? "]" : "}"}</div>
      `}
    </div>
  `;
}

const Name = ({ name }) => (name === undefined ? null : html`<span class="j-name">${straight(String(name))}</span><span class="quiet">: </span>`);

function Scalar({ value }) {
  const kind = value === null || typeof value === "boolean" ? "word" : typeof value;
  const shown = useSignal(CHARS_MAX);
  const text = JSON.stringify(value);
  const left = text.length - shown.value;
  return html`<span class=${`j-${kind}`}>${straight(left > 0 ? text.slice(0, shown.value) : text)}</span>${left > 0 && html`… <button class="plain small-button" onClick=${() => (shown.value *= 10)}>${count(left)} characters more</button>`}`;
}
