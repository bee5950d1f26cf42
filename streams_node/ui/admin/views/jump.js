// Goes to a place in the stream: a message's number, an offset, or a time.
import { html, useSignal } from "../lib/html.js";
import { plural } from "../lib/format.js";
import { decode, offsetAt } from "../lib/offsets.js";
import { note } from "../lib/route.js";

const AGO = /^(\d+(?:\.\d+)?)\s*(s|m|h|d)(?:in)?(?:\s+ago)?$/i;
const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

// What somebody typed, as parameters of the address; a text when it is nothing that we know.
export function placeOf(text, epochs, now = Date.now()) {
  const typed = text.trim();
  if (/^(start|first|-1)$/i.test(typed)) return { from: "-1", since: "" };
  if (/^(end|now|live|last)$/i.test(typed)) return { from: "", since: "" };
  if (/^#?\d{1,15}$/.test(typed)) return { from: offsetAt(epochs, Number(typed.replace("#", ""))), since: "" };
  if (typed.length === 26 && decode(typed)) return { from: typed.toUpperCase(), since: "" };
  const ago = AGO.exec(typed);
  if (ago) return { from: "", since: new Date(now - Number(ago[1]) * UNIT_MS[ago[2].toLowerCase()]).toISOString() };
  const date = new Date(typed);
  if (/\d{4}-\d{2}/.test(typed) && !Number.isNaN(date.getTime())) return { from: "", since: date.toISOString() };
  return "A message's number, an offset, start, now, a time, or how long ago: 15m";
}

export function Jump({ stream, from, since }) {
  const typed = useSignal("");
  const wrong = useSignal("");
  const submit = (event) => {
    event.preventDefault();
    if (!typed.value.trim()) return;
    const place = placeOf(typed.value, stream.epochs);
    const far = decode(place.from ?? "")?.seq > Number(stream.next_offset);
    if (far || typeof place === "string") {
      wrong.value = far ? `There are ${plural(stream.next_offset, "message")}, numbered from 0` : place;
      return;
    }
    wrong.value = "";
    typed.value = "";
    note({ ...place, at: "" });
  };
  const shown = since ? `from ${since}` : from === "-1" ? "from the start" : from ? decode(from) ? `from message ${decode(from).seq}` : "from an offset" : "";
  return html`
    <form class="jump" onSubmit=${submit}>
      ${shown && html`<span class="tag accent">${shown}</span>`}
      <button type="button" class="plain small-button" onClick=${() => note({ from: "-1", since: "", at: "" })}>Start</button>
      <label>
        <span class="visually-hidden">Go to a message</span>
        <input placeholder="Go to: 1200, 15m, 2026-03-25T10:00…" spellcheck="false" autocomplete="off" aria-invalid=${wrong.value ? "true" : null} aria-describedby="jump-said"
          value=${typed.value} onInput=${(event) => ((typed.value = event.target.value), (wrong.value = ""))} />
      </label>
      <button class="plain small-button" disabled=${!typed.value.trim()}>Go</button>
      <span id="jump-said" class="trouble small" role="alert">${wrong.value}</span>
    </form>
  `;
}
