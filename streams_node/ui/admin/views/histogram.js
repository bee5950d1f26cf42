// How many records there are over time, by a rollup of the schema; a brush over it narrows the query.
import { html, useMemo, useSignal } from "../lib/html.js";
import { post, streamPath } from "../lib/api.js";
import { count, plural } from "../lib/format.js";
import { useLoad } from "../lib/load.js";
import { everything, ranged, unranged } from "../lib/query.js";
import { Chart } from "../parts/chart.js";
import { Failure, Loading } from "../parts/states.js";

const WINDOWS_MAX = 160;
const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const SPANS = [["All", 0], ["24 h", 86_400_000], ["1 h", 3_600_000], ["15 min", 900_000]];

const length = (interval) => {
  const found = /^(\d+)(ms|s|m|h|d)$/.exec(interval);
  return found ? Number(found[1]) * UNIT_MS[found[2]] : Number(interval) || UNIT_MS.m;
};

export function Histogram({ name, search, q, use }) {
  const rollups = Object.entries(search.rollups ?? {}).flatMap(([rollup, each]) => {
    const measure = Object.entries(each.measures).find(([, { kind }]) => kind === "count") ?? Object.entries(each.measures)[0];
    return measure ? [{ rollup, measure: measure[0], intervals: each.intervals, dimensions: each.dimensions ?? [] }] : [];
  });
  if (!rollups.length) return html`<p class="quiet small histogram-none">No histogram: the schema declares no rollup to count by.</p>`;
  return html`<${Drawn} name=${name} search=${search} q=${q} use=${use} rollup=${rollups[0]} />`;
}

function Drawn({ name, search, q, use, rollup }) {
  const span = useSignal(0);
  const time = search.primaryTimestampField;
  const { kind, data, error, reload, stale } = useLoad((signal) => read({ name, search, q, rollup, span: span.value, signal }), [name, q, span.value, rollup.rollup]);
  const drawn = useMemo(() => (data ? [data.times, data.counts] : [[], []]), [data]);
  if (kind === "error" && error.code !== "unreachable") return error.fields?.position === undefined ? html`<${Failure} error=${error} retry=${reload} title="The histogram could not be made" />` : null;
  const brush = (from, to) => {
    const narrow = unranged(q, time) === everything(search) ? "" : q;
    use(ranged(narrow, time, from * 1000, to * 1000));
  };
  const ranged_ = q.includes(`${time}:>=`) && q.includes(`${time}:<"`);
  return html`
    <section class="histogram" aria-label="Histogram">
      <div class="histogram-head">
        <span class="small quiet" role="status">${data ? (data.empty ? "Nothing to count" : html`${plural(data.sum, "record")} by ${time}, a column is ${data.interval} ${!data.complete && html`<span class="tag warn">not complete</span>`}`) : "Counting…"}</span>
        <span class="grow"></span>
        ${ranged_ && html`<button class="plain small-button" onClick=${() => use(unranged(q, time))}>Clear the range</button>`}
        <div class="segmented" role="group" aria-label="Time">
          ${SPANS.map(([text, ms]) => html`<button aria-pressed=${span.value === ms ? "true" : "false"} onClick=${() => (span.value = ms)}>${text}</button>`)}
        </div>
      </div>
      ${!data ? html`<${Loading} rows=${3} what="Counting" />` : !data.empty && html`<div class=${stale ? "stale-chart" : ""}><${Chart} bars=${data.step} height=${112} data=${drawn} label=${said(data)} onSelect=${brush} /></div>`}
    </section>
  `;
}

const said = (data) => {
  const most = data.counts.indexOf(Math.max(...data.counts));
  return `${count(data.sum)} records over time; most, ${count(data.counts[most])}, at ${new Date(data.times[most] * 1000).toLocaleString("en-GB")}. Drag to choose a range, or use the arrow keys, Shift to take more, and Enter.`;
};

async function read({ name, search, q, rollup, span, signal }) {
  const path = streamPath(name);
  const time = search.primaryTimestampField;
  const bounds = span ? [Date.now() - span, Date.now() + 1000] : await extent(path, time, q || everything(search), signal);
  if (!bounds) return { empty: true };
  const [from, to] = bounds;
  const fitting = rollup.intervals.map((text) => ({ text, ms: length(text) })).sort((a, b) => a.ms - b.ms);
  const { text: interval, ms } = fitting.find((each) => (to - from) / each.ms <= WINDOWS_MAX) ?? fitting.at(-1);
  const begin = Math.floor(from / ms) * ms;
  const own = q === everything(search) ? "" : q;
  const request = { rollup: rollup.rollup, from: begin, to: Math.ceil((to + 1) / ms) * ms, interval, measures: [rollup.measure], ...(own ? { q: own } : {}) };
  const answer = await post(`${path}/_aggregate`, request, { signal, also: [408] });
  const found = new Map(answer.buckets.map((each) => [new Date(each.start).getTime(), each.groups.reduce((sum, { measures }) => sum + Number(measures[rollup.measure].count), 0)]));
  const step = ms * Math.max(1, Math.ceil((to - begin) / ms / (WINDOWS_MAX * 4))); // a year by the minute is drawn coarser
  const times = [];
  const counts = [];
  for (let at = begin; at <= to; at += step) {
    let sum = 0;
    for (let inside = at; inside < at + step; inside += ms) sum += found.get(inside) ?? 0;
    times.push(at / 1000);
    counts.push(sum);
  }
  const sum = counts.reduce((all, each) => all + each, 0);
  return { times, counts, sum, step: step / 1000, interval: step === ms ? interval : `${step / ms} × ${interval}`, complete: answer.coverage.complete, empty: !sum };
}

// The first and the last moment of what matches.
async function extent(path, time, q, signal) {
  if (!q) return null;
  const ends = ["asc", "desc"].map((way) => post(`${path}/_search`, { q, size: 1, sort: [`${time}:${way}`] }, { signal, also: [408] }));
  const [first, last] = (await Promise.all(ends)).map((each) => each.hits[0]?.fields[time]).map((each) => new Date(Array.isArray(each) ? each[0] : each).getTime());
  return Number.isNaN(first) || Number.isNaN(last) ? null : [first, last];
}
