// Appends to the stream.
import { html, useSignal } from "../lib/html.js";
import { request, streamPath } from "../lib/api.js";
import { plural } from "../lib/format.js";
import { problemOf } from "../lib/jsontext.js";
import { isJson } from "../lib/pages.js";
import { Dialog, Trouble } from "../parts/dialog.js";
import { sentence } from "../parts/states.js";

// An answer that never came says nothing of what the node has done.
const LOST = { message: "the node did not answer: this may be stored or not; look at the messages before you append it again" };

export function Produce({ name, stream, close }) {
  const json = isJson(stream.content_type);
  const text = useSignal(json ? '{\n  "hello": "world"\n}' : "");
  const key = useSignal("");
  const state = useSignal({});
  const problem = json && text.value ? problemOf(text.value) : text.value ? null : "there is nothing yet";
  const submit = async (event) => {
    event.preventDefault();
    if (problem || state.value.busy) return;
    state.value = { busy: true };
    try {
      const headers = { "Content-Type": stream.content_type, ...(key.value ? { "Stream-Key": key.value } : {}) };
      const response = await request(streamPath(name), { method: "POST", body: text.value, headers });
      state.value = { stored: response.headers.get("Stream-Next-Offset") };
    } catch (error) {
      state.value = { error: error.code === "unreachable" ? LOST : error };
    }
  };
  const keys = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void submit(event);
  };
  return html`
    <${Dialog} title=${`Append to ${name}`} close=${close} wide=${true}>
      <form onSubmit=${submit}>
        <label class="field">
          <span>${json ? "A message, or an array of messages" : `One entry of ${stream.content_type}`}</span>
          <textarea autofocus rows="11" spellcheck="false" aria-invalid=${problem ? "true" : null} aria-describedby="produce-said" value=${text.value}
            onInput=${(event) => ((text.value = event.target.value), (state.value = {}))} onKeyDown=${keys}></textarea>
        </label>
        <p id="produce-said" class="small ${problem ? "trouble" : "quiet"}">${problem ? sentence(problem) : json ? said(text.value) : ""}</p>
        <label class="field">
          <span>Routing key <em class="quiet">(optional)</em></span>
          <input spellcheck="false" autocomplete="off" value=${key.value} onInput=${(event) => (key.value = event.target.value)} />
        </label>
        <${Trouble} error=${state.value.error} />
        <div role="status">${state.value.stored && html`<p class="done">Stored. The next offset is <code>${state.value.stored}</code>.</p>`}</div>
        <footer>
          <button type="button" class="plain" onClick=${close}>${state.value.stored ? "Done" : "Cancel"}</button>
          <button disabled=${Boolean(problem) || state.value.busy}>Append</button>
        </footer>
      </form>
    <//>
  `;
}

function said(text) {
  const value = JSON.parse(text);
  if (!Array.isArray(value)) return "One message.";
  return value.length ? `${plural(value.length, "message")}.` : "An empty array appends nothing and is refused.";
}
