import { html } from "../lib/html.js"; export const Schema = () => html`<p>todo</p>`;
