// A button that copies a text, and says that it did.
import { html, useSignal } from "../lib/html.js";
import { Icon } from "./states.js";

const SAID_MS = 1500;

export function Copy({ label, text, icon = "copy", disabled = false }) {
  const said = useSignal("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.value = "Copied";
    } catch {
      said.value = byHand(text) ? "Copied" : "Not allowed";
    }
    setTimeout(() => (said.value = ""), SAID_MS);
  };
  return html`<button class="plain small-button" disabled=${disabled} data-copy=${text} onClick=${copy}>
    <${Icon} name=${icon} size=${14} /> <span aria-live="polite">${said.value || label}</span>
  </button>`;
}

// Without TLS, on an address that is not this machine's, browsers have no clipboard for scripts.
function byHand(text) {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
