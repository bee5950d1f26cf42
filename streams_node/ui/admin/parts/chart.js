// A chart over time: uPlot, in the colours of the page, as wide as its place.
import { effect, html, signal, useEffect, useRef, useState } from "../lib/html.js";
import uPlot from "../vendor/uplot.js";
import { bytes, plural, short } from "../lib/format.js";
import { theme } from "../views/theme.js";

const turn = signal(0); // grows when the reader's system changes its colours
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (turn.value += 1));

// Canvas knows no custom properties: a probe is asked what they are just now.
function colour(box, name, part = 100) {
  const probe = document.createElement("i");
  probe.style.color = `color-mix(in srgb, var(${name}) ${part}%, transparent)`;
  box.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// `data` is [times in seconds, values, ...]. `bars` draws columns, each of so many seconds. `onSelect(from, to)` is told
// of a brush, in seconds: one that is dragged, or columns that are chosen with the arrow keys.
export function Chart({ data, label, height = 130, bars = 0, series = [{ colour: "--accent" }], show = short, onSelect }) {
  const box = useRef(null);
  const plot = useRef(null);
  const latest = useRef(data);
  latest.current = data;
  const column = useRef(bars);
  column.current = bars;
  const told = useRef(onSelect); // the chart outlives the query that it was first drawn for
  told.current = onSelect;
  useEffect(() => {
    const draw = () => {
      void theme.value;
      void turn.value;
      plot.current?.destroy();
      plot.current = new uPlot(options({ box: box.current, height, column, series, show, onSelect: onSelect && ((from, to) => told.current(from, to)) }), latest.current, box.current);
    };
    const stop = effect(draw);
    const watcher = new ResizeObserver(() => plot.current.setSize({ width: box.current.clientWidth, height }));
    watcher.observe(box.current);
    return () => {
      watcher.disconnect();
      stop();
      plot.current.destroy();
    };
  }, [height, bars > 0, series.length]);
  useEffect(() => plot.current?.setData(data), [data]);
  const chart = (rest) => html`<div class="chart" aria-label=${label} ref=${box} style=${{ height: `${height}px` }} ...${rest}></div>`;
  const keys = useColumns(plot, data, bars, onSelect);
  if (!onSelect) return chart({ role: "img" });
  return html`${chart({ role: "group", tabindex: 0, onKeyDown: keys.pressed })}<span class="visually-hidden" role="status">${keys.said}</span>`;
}

// Columns chosen by keys: arrows move, with Shift they take more, Enter is what letting go of the mouse is.
function useColumns(plot, data, column, onSelect) {
  const [chosen, choose] = useState(null); // the first one, and the one that was moved to last
  const [times, counts] = data;
  const [low, high] = chosen ? [Math.min(...chosen), Math.max(...chosen)] : [];
  const end = (at) => times[at] + column;
  useEffect(() => choose(null), [data]);
  useEffect(() => {
    if (!onSelect || !plot.current) return;
    const at = (seconds) => plot.current.valToPos(seconds, "x");
    const span = chosen ? { left: at(times[low]), width: at(end(high)) - at(times[low]) } : { left: 0, width: 0 };
    plot.current.setSelect({ top: 0, height: chosen ? plot.current.over.clientHeight : 0, ...span }, false);
  }, [chosen]);
  const pressed = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -times.length, End: times.length }[event.key];
    if (event.key === "Enter" && chosen) onSelect(times[low], end(high));
    else if (event.key === "Escape") choose(null);
    else if (step) {
      event.preventDefault();
      const from = chosen ? chosen[1] : step > 0 ? -1 : times.length;
      const to = Math.min(times.length - 1, Math.max(0, from + step));
      choose([event.shiftKey && chosen ? chosen[0] : to, to]);
    }
  };
  const sum = chosen ? counts.slice(low, high + 1).reduce((all, each) => all + each, 0) : 0;
  return { pressed, said: chosen ? `${spoken(times[low])} to ${spoken(end(high))}: ${plural(sum, "record")}` : "" };
}

const spoken = (seconds) => new Date(seconds * 1000).toLocaleString("en-GB");

function options({ box, height, column, series, show, onSelect }) {
  const bars = column.current > 0;
  const quiet = colour(box, "--quiet");
  const line = colour(box, "--line");
  const axis = { stroke: quiet, font: "11px system-ui, sans-serif", ticks: { show: false } };
  return {
    width: box.clientWidth || 300,
    height,
    padding: [8, 6, 0, 0],
    legend: { show: false },
    cursor: { points: { show: !bars }, drag: { x: Boolean(onSelect), y: false, setScale: false }, y: false },
    select: { show: Boolean(onSelect) },
    scales: { ...(bars ? { x: { range: ({ data: [times] }) => (times.length ? [times[0], times.at(-1) + column.current] : [0, 1]) } } : {}), y: { range: (_, low, high) => [0, Math.max(high * 1.08, Number.EPSILON) || 1] } },
    axes: [
      { ...axis, grid: { show: false }, size: 24, space: 80, values: (_, marks, _axis, _space, step) => marks.map((mark) => moment(mark, step)) },
      { ...axis, grid: { stroke: line, width: 1 }, size: 58, space: 30, values: (_, marks) => once(marks.map((mark) => show(mark))), ...(show === bytes ? { incrs: POWERS } : {}) },
    ],
    series: [
      {},
      ...series.map((each) => {
        const ink = colour(box, each.colour);
        const drawn = { stroke: ink, width: 1.5, points: { show: false }, fill: colour(box, each.colour, bars ? 80 : 13) };
        return bars ? { ...drawn, width: 0, paths: uPlot.paths.bars({ size: [0.85, 60], align: 1 }) } : drawn;
      }),
    ],
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (!onSelect || width < 4) return;
          onSelect(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
}

// Marks that are closer than their words can tell are not said twice.
const once = (words) => words.map((word, at) => (word === words[at - 1] ? "" : word));

const DAY_S = 86_400;

// One line a mark: the time of a day, or the day.
function moment(seconds, step) {
  const date = new Date(seconds * 1000);
  if (step >= DAY_S) return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return date.toLocaleTimeString("en-GB", step < 60 ? {} : { hour: "2-digit", minute: "2-digit" });
}

// Sizes are counted in powers of two: so are their marks.
const POWERS = Array.from({ length: 50 }, (_, at) => 2 ** at);
