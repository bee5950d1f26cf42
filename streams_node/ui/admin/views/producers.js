// Who appends to the stream, and who is woken by it.
import { html, useMemo, useSignal } from "../lib/html.js";
import { asJson, streamPath } from "../lib/api.js";
import { age, count, moment, plural } from "../lib/format.js";
import { useLoad, useNow } from "../lib/load.js";
import { offsetAt } from "../lib/offsets.js";
import { streamLink } from "../lib/route.js";
import { Empty, Failure, Loading } from "../parts/states.js";

const PAGE = 100;
const REFRESH_MS = 2000; // a busy stream changes faster than anybody reads a table

export function Producers({ name, data }) {
  const { stream, subscriptions } = data;
  const pages = useSignal(1);
  const now = useNow(REFRESH_MS);
  const change = useMemo(() => `${stream.epoch} ${stream.next_offset} ${stream.closed}`, [now]);
  const { kind, data: found, error, reload } = useLoad((signal) => read(name, pages.value, signal), [name, pages.value, change]);
  return html`
    <div class="pane">
      ${kind === "error" && error.code !== "unreachable" && html`<${Failure} error=${error} retry=${reload} title="The producers could not be read" />`}
      ${found ? html`<${Listed} ...${{ name, stream, found, now }} more=${() => (pages.value += 1)} />` : kind === "error" ? null : html`<${Loading} what="Reading the producers" />`}
      <${Subscriptions} subscriptions=${subscriptions} />
    </div>
  `;
}

async function read(name, pages, signal) {
  const found = { producers: [], next_after: "" };
  for (let at = 0; at < pages && found.next_after !== null; at += 1) {
    const query = new URLSearchParams({ limit: PAGE, ...(found.next_after ? { after: found.next_after } : {}) });
    const page = await asJson(`${streamPath(name)}/_producers?${query}`, { signal });
    found.producers.push(...page.producers);
    found.next_after = page.next_after;
    found.count = page.count;
  }
  return found;
}

function Listed({ name, stream, found, now, more }) {
  if (!found.count)
    return html`<${Empty} title="No producer yet" icon="send">
      Who sends <code>Producer-Id</code>, <code>Producer-Epoch</code> and <code>Producer-Seq</code> with an append can repeat it safely, and stands here.
    <//>`;
  return html`
    <h2>${plural(found.count, "producer")}</h2>
    <section class="card wide-table" tabindex="0" role="region" aria-label="Producers">
      <table>
        <thead><tr><th scope="col">Producer</th><th scope="col" class="number">Epoch</th><th scope="col" class="number">Last number</th><th scope="col">Its newest entry</th><th scope="col">Last append</th></tr></thead>
        <tbody>${found.producers.map((each) => html`
          <tr key=${each.id}>
            <td class="id"><code>${each.id}</code></td>
            <td class="number">${count(each.epoch)}</td>
            <td class="number">${count(each.seq)}</td>
            <td><${Place} name=${name} stream=${stream} end=${Number(each.next_offset)} /></td>
            <td class="nowrap">${each.last_append_at ? html`<span title=${moment(each.last_append_at)}>${age(each.last_append_at, now)}${each.last_append_exact ? "" : html` <span class="quiet">or before</span>`}</span>` : html`<span class="quiet">unknown: its entry is gone</span>`}</td>
          </tr>`)}</tbody>
      </table>
      ${found.next_after !== null && html`<button class="plain" onClick=${more}>More: ${count(found.count - found.producers.length)} left</button>`}
    </section>
  `;
}

const Place = ({ name, stream, end }) => (end > 0 ? html`<a href=${streamLink(name, "messages", { at: offsetAt(stream.epochs, end) })}>${count(end - 1)}</a>` : html`<span class="quiet">none</span>`);

function Subscriptions({ subscriptions }) {
  const { first, count: all } = subscriptions;
  return html`
    <section class="card wide-table" tabindex="0" role="region" aria-label="Subscriptions">
      <h3>Woken by it</h3>
      ${all
        ? html`<table>
            <thead><tr><th scope="col">Subscription</th><th scope="col">Kind</th><th scope="col">Because</th></tr></thead>
            <tbody>${first.map((each) => html`<tr key=${each.id}><td class="id"><code>${each.id}</code></td><td>${each.type}</td><td>${each.named ? "it names the stream" : "its pattern matches the name"}</td></tr>`)}</tbody>
          </table>
          ${all > first.length && html`<p class="quiet small">and ${count(all - first.length)} more</p>`}`
        : html`<p class="quiet">No subscription.</p>`}
    </section>
  `;
}
