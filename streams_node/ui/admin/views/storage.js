import { html } from "../lib/html.js"; export const Storage = () => html`<p>todo</p>`;
