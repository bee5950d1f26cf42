import { html } from "../lib/html.js"; export const Indexes = () => html`<p>todo</p>`;
