// Asks for the node's key. It stays in this tab and is sent as a header only.
import { html, useSignal } from "../lib/html.js";
import { key, keep, refused } from "../lib/key.js";
import { Icon } from "../parts/states.js";

export function Login() {
  const typed = useSignal("");
  const wrong = refused.value && key.value;
  const submit = (event) => {
    event.preventDefault();
    if (typed.value) keep(typed.value.trim());
  };
  return html`
    <form class="login" onSubmit=${submit}>
      <${Icon} name="key" size=${28} />
      <h1>This node asks for a key</h1>
      <p class="quiet">It is the one that the node was started with. This tab keeps it until you close it.</p>
      <label class="field">
        <span>Access key</span>
        <input type="password" autofocus autocomplete="current-password" spellcheck="false" aria-invalid=${wrong ? "true" : null}
          aria-describedby="key-said" value=${typed.value} onInput=${(event) => (typed.value = event.target.value)} />
      </label>
      <p id="key-said" class="trouble" role="alert">${wrong ? "The node does not take this key." : ""}</p>
      <button disabled=${!typed.value.trim()}>Open</button>
    </form>
  `;
}
