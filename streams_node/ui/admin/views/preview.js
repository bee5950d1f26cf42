// A message in one line.
import { Component, html } from "../lib/html.js";
import { bytes, straight } from "../lib/format.js";
import { pieces } from "../lib/jsontext.js";

const CHARS = 320;

// Messages never change: a line is drawn once.
export class Preview extends Component {
  shouldComponentUpdate(next) {
    return next.message !== this.props.message;
  }

  render({ message, json }) {
    if (message.bytes) return html`<span class="line quiet">${bytes(message.bytes.length)} <code>${hexStart(message.bytes)}</code></span>`;
    const text = straight(message.text.slice(0, CHARS).replace(/\s+/g, " "));
    if (!json) return html`<span class="line">${text}</span>`;
    return html`<span class="line">${pieces(text).map(([part, kind]) => (kind ? html`<i class=${`j-${kind}`}>${part}</i>` : part))}</span>`;
  }
}

const hexStart = (data) => Array.from(data.subarray(0, 24), (each) => each.toString(16).padStart(2, "0")).join(" ") + (data.length > 24 ? " …" : "");
