// What has changed between two texts.
import { html, useMemo } from "../lib/html.js";
import { diff, near } from "../lib/diff.js";
import { plural } from "../lib/format.js";

const WORDS = { "-": "Taken out", "+": "Put in" };

export function Difference({ before, after, label }) {
  const lines = useMemo(() => near(diff(before, after)), [before, after]);
  const count = (kind) => lines.filter(([each]) => each === kind).length;
  if (!count("+") && !count("-")) return html`<p class="quiet small">Nothing differs.</p>`;
  return html`
    <p class="quiet small">${plural(count("+"), "line")} put in, ${count("-")} taken out</p>
    <div class="difference" tabindex="0" role="region" aria-label=${label}>
      ${lines.map(([kind, text]) =>
        kind === "…"
          ? html`<div class="same-lines">${plural(text, "equal line")}</div>`
          : html`<div class=${{ "-": "out", "+": "in" }[kind] ?? ""}><span class="sign" aria-hidden="true">${kind}</span>${WORDS[kind] && html`<span class="visually-hidden">${WORDS[kind]}: </span>`}<code>${text}</code></div>`,
      )}
    </div>
  `;
}
