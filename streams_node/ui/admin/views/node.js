import { html } from "../lib/html.js"; export const Node = () => html`<p>todo</p>`;
