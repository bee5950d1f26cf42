import { html } from "../lib/html.js"; export const Search = () => html`<p>todo</p>`;
