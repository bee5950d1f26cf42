// Writes a change of a schema. What is wrong with it is said while it is written: by the page, then by the node.
import { html, useEffect, useMemo, useSignal } from "../lib/html.js";
import { post, streamPath } from "../lib/api.js";
import { check, refusal, unseen } from "../lib/declared.js";
import { plural } from "../lib/format.js";
import { stretch } from "../lib/pages.js";
import { streamLink } from "../lib/route.js";
import { offsetAt } from "../lib/offsets.js";
import { Difference } from "../parts/difference.js";
import { Lines } from "../parts/lines.js";
import { sentence } from "../parts/states.js";

const LAST = 50; // entries that a change is held against
const LAST_CHARS = 256 * 1024;
const TYPING_MS = 500;
const SHOWN = 5;

export function SchemaEditor({ name, registry, stream, text }) {
  const saving = useSignal({});
  const reveal = useSignal(null);
  const local = check(text.value, registry, stream.next_offset);
  const last = useLast(name, stream);
  const asked = useAsked(name, registry, text.value, local.length > 0, last);
  const refused = saving.value.error ?? asked.error;
  const problems = refused && !local.length ? [refusal(text.value, refused.message)] : local;
  const hints = local.length || !last ? [] : unseen(text.value, last.map((each) => each.value));
  const marks = useMemo(() => marksOf(problems, hints), [problems, hints]);
  const save = async (event) => {
    event.preventDefault();
    saving.value = { busy: true };
    try {
      await post(`${streamPath(name)}/_schema`, JSON.parse(text.value));
      text.value = null; // the details bring the new one
    } catch (error) {
      saving.value = { error };
    }
  };
  const change = (value) => {
    text.value = value;
    saving.value = {};
  };
  return html`
    <form class="editor" onSubmit=${save}>
      <div class="row">
        <h2>${registry.currentVersion ? "Change the schema" : stream.next_offset === "0" ? "First schema" : "Routing key"}</h2><span class="grow"></span>
        <span class="tag ${problems.length || asked.answer?.refused.length ? "warn" : "good"}" role="status">${problems.length ? `${problems.length} to mend` : !asked.answer ? "well formed" : asked.answer.refused.length ? "does not fit the last entries" : "the node would take it"}</span>
      </div>
      <label class="field"><span>Any of <code>schema</code>, <code>lens</code>, <code>routingKey</code> and <code>search</code>; what is left out stays as it is</span>
        <${Lines} autofocus text=${text.value} onText=${change} marks=${marks} reveal=${reveal.value} aria-invalid=${problems.length ? "true" : null} aria-describedby="schema-said" />
      </label>
      <div id="schema-said" aria-live="polite">
        <${Said} items=${problems} kind="trouble" show=${(line) => (reveal.value = { line })} />
        <${Said} items=${hints} kind="hint" show=${(line) => (reveal.value = { line })} />
        ${asked.answer && !problems.length && html`<${Held} answer=${asked.answer} last=${last} name=${name} stream=${stream} />`}
      </div>
      <div class="row"><span class="grow"></span><button type="button" class="plain" onClick=${() => (text.value = null)}>Cancel</button><button disabled=${local.length > 0 || saving.value.busy}>Store</button></div>
      ${!local.length && html`<details class="card"><summary>What it changes</summary><${Changes} text=${text.value} registry=${registry} /></details>`}
    </form>
  `;
}

// The newest entries, as they would be appended again.
function useLast(name, stream) {
  const last = useSignal(null);
  useEffect(() => {
    const stop = new AbortController();
    const end = Number(stream.next_offset);
    const of = { name, type: stream.content_type, epochs: stream.epochs };
    stretch(of, Math.max(0, end - LAST), end, stop.signal).then(
      (messages) => (last.value = fitting(messages)),
      () => stop.signal.aborted || (last.value = []), // older ones may be trimmed: then none are looked at
    );
    return () => stop.abort();
  }, [name]);
  return last.value;
}

function fitting(messages) {
  let chars = 0;
  return messages.filter(({ text }) => (chars += text.length) <= LAST_CHARS).map(({ seq, text }) => ({ seq, text, value: JSON.parse(text) }));
}

// What the node says of the text, a moment after it was written.
function useAsked(name, registry, text, wrong, last) {
  const asked = useSignal({});
  useEffect(() => {
    asked.value = {};
    if (wrong || !last) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      const body = `{"update":${text},"entries":[${last.map((each) => each.text).join(",")}]}`; // as they were sent: no number is rounded
      post(`${streamPath(name)}/_schema/check`, null, { body, signal: stop.signal }).then(
        (answer) => (asked.value = { answer }),
        (error) => stop.signal.aborted || error.code === "unreachable" || (asked.value = { error }),
      );
    }, TYPING_MS);
    return () => (clearTimeout(timer), stop.abort());
  }, [text, wrong, last, registry.currentVersion]);
  return asked.value;
}

function marksOf(problems, hints) {
  const marks = new Map();
  for (const [kind, items] of [["warn", hints], ["bad", problems]]) for (const { line, text } of items) if (line) marks.set(line, { kind, text });
  return marks;
}

function Said({ items, kind, show }) {
  if (!items.length) return null;
  return html`<ul class="problems small ${kind}">${items.map(({ text, line }) => html`<li>${line && html`<button type="button" class="link" onClick=${() => show(line)}>Line ${line}</button>: `}${line ? text : sentence(text)}</li>`)}</ul>`;
}

function Held({ answer, last, name, stream }) {
  if (!answer.entries) return html`<p class="small quiet">The stream has no entries to hold it against.</p>`;
  const { refused } = answer;
  if (!refused.length) return html`<p class="small done">${answer.entries === 1 ? "The last entry fits" : `The last ${answer.entries} entries fit`}: they could be appended again.</p>`;
  return html`
    <div class="notice warn">
      <strong>${refused.length} of the last ${plural(answer.entries, "entry", "entries")} would be refused</strong>
      <p class="small">What is stored stays and can be read. Whoever goes on appending such entries is refused.</p>
      <ul class="problems small">
        ${refused.slice(0, SHOWN).map(({ index, message }) => html`<li><a href=${streamLink(name, "messages", { at: offsetAt(stream.epochs, last[index].seq + 1) })}>Entry ${last[index].seq}</a>: ${sentence(message)}</li>`)}
        ${refused.length > SHOWN && html`<li>and ${refused.length - SHOWN} more</li>`}
      </ul>
    </div>
  `;
}

function Changes({ text, registry }) {
  const update = JSON.parse(text);
  const parts = [
    ["schema", registry.schemas[registry.currentVersion]],
    ["routingKey", registry.routingKey],
    ["search", registry.search],
  ].filter(([part]) => part in update);
  return parts.map(
    ([part, old]) => html`<h3><code>${part}</code></h3><${Difference} before=${pretty(old)} after=${pretty(update[part])} label=${`Changes of ${part}`} />`,
  );
}

const pretty = (value) => (value == null ? "" : JSON.stringify(value, null, 2));
