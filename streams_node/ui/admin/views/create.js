// Creates a stream.
import { html, useSignal } from "../lib/html.js";
import { request, streamPath } from "../lib/api.js";
import { go, streamLink } from "../lib/route.js";
import { Dialog, Trouble } from "../parts/dialog.js";
import { changes } from "./changes.js";

const TYPES = [
  ["application/json", "JSON messages: each can be read, searched and checked"],
  ["text/plain", "Text"],
  ["application/octet-stream", "Bytes"],
];

export function Create({ close }) {
  const form = useSignal({ name: "", type: TYPES[0][0], ttl: "" });
  const state = useSignal({});
  const set = (part) => (form.value = { ...form.value, ...part });
  const { name, type, ttl } = form.value;
  const submit = async (event) => {
    event.preventDefault();
    state.value = { busy: true };
    try {
      const headers = { "Content-Type": type, ...(ttl ? { "Stream-TTL": ttl } : {}) };
      await request(streamPath(name), { method: "PUT", headers });
      changes.value += 1;
      close();
      go(streamLink(name));
    } catch (error) {
      state.value = { error };
    }
  };
  return html`
    <${Dialog} title="New stream" close=${close}>
      <form onSubmit=${submit}>
        <label class="field">
          <span>Name</span>
          <input autofocus required spellcheck="false" autocomplete="off" value=${name} onInput=${(event) => set({ name: event.target.value.trim() })} aria-describedby="name-hint" />
          <small id="name-hint" class="quiet">With a slash, what is before the first one is its bucket: <code>payments/orders</code>.</small>
        </label>
        <fieldset>
          <legend>What it holds</legend>
          ${TYPES.map(
            ([value, text]) => html`
              <label class="choice">
                <input type="radio" name="type" value=${value} checked=${type === value} onChange=${() => set({ type: value })} />
                <span><code>${value}</code><small class="quiet">${text}</small></span>
              </label>
            `,
          )}
        </fieldset>
        <label class="field">
          <span>Ends when unused for <em class="quiet">(optional)</em></span>
          <input placeholder="for example 24h; empty: never" value=${ttl} onInput=${(event) => set({ ttl: event.target.value.trim() })} />
        </label>
        <${Trouble} error=${state.value.error} />
        <footer>
          <button type="button" class="plain" onClick=${close}>Cancel</button>
          <button disabled=${!name || state.value.busy}>Create</button>
        </footer>
      </form>
    <//>
  `;
}
