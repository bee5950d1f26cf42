// What a view shows when there is nothing to show: not yet, nothing at all, or a failure.
import { html } from "../lib/html.js";
import { straight } from "../lib/format.js";

export function Loading({ what = "Loading", rows = 4 }) {
  return html`
    <div class="state loading" role="status">
      <span class="visually-hidden">${what}…</span>
      ${Array.from({ length: rows }, (_, at) => html`<div class="bone" style=${{ width: `${92 - ((at * 23) % 45)}%` }}></div>`)}
    </div>
  `;
}

export function Empty({ title, children, icon = "waves" }) {
  return html`
    <div class="state empty">
      <${Icon} name=${icon} size=${28} />
      <h2>${title}</h2>
      <div class="state-text">${children}</div>
    </div>
  `;
}

export function Failure({ error, retry, title = "That did not work" }) {
  return html`
    <div class="notice bad" role="alert">
      <strong>${title}</strong>
      <p><${Said} text=${error.message} /></p>
      ${error.code && html`<p class="quiet small">Code <code>${error.code}</code>${error.status ? `, status ${error.status}` : ""}</p>`}
      ${retry && html`<button class="plain" onClick=${retry}>Try again</button>`}
    </div>
  `;
}

// What the node says, with the names in it set apart.
export const Said = ({ text }) => straight(sentence(text)).split("`").map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));

export const sentence = (text) => (text ? text[0].toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".") : "");

const PATHS = {
  waves: "M3 7c3-2.500 5 2.500 8 0s5-1.500 8 0M3 12c3-2.500 5 2.500 8 0s5-1.500 8 0M3 17c3-2.500 5 2.500 8 0s5-1.500 8 0",
  search: "M10.500 4a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13zM15.500 15.500 20 20",
  plus: "M12 5v14M5 12h14",
  pause: "M8 5v14M16 5v14",
  play: "M7 4.500v15l12-7.500z",
  close: "M6 6l12 12M18 6 6 18",
  back: "M14 6l-6 6 6 6",
  key: "M14.500 4a5.500 5.500 0 1 0-5 8L4 17.500V20h3v-2h2v-2h2l1.500-1.500M15.500 8.500h.01",
  trash: "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12",
  send: "M5 12h13M12 6l6 6-6 6",
  lock: "M7 11V8a5 5 0 0 1 10 0v3M5.500 11h13v8.500h-13z",
  gauge: "M4 17a8 8 0 1 1 16 0M12 17l4-5",
  copy: "M9 9h10v11H9zM5 15V4h10",
  link: "M10 14a4 4 0 0 0 6 0l2.500-2.500a4 4 0 0 0-6-6L11 7M14 10a4 4 0 0 0-6 0l-2.500 2.500a4 4 0 0 0 6 6L13 17",
  moon: "M19 14.500A7.500 7.500 0 0 1 9.500 5 7.500 7.500 0 1 0 19 14.500z",
  alert: "M12 4 3 19h18zM12 10v4M12 16.500v.01",
};

export function Icon({ name, size = 18 }) {
  return html`
    <svg class="icon" viewBox="0 0 24 24" width=${size} height=${size} aria-hidden="true" focusable="false">
      <path d=${PATHS[name]} fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  `;
}
