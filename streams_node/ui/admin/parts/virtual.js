// A list of any length of which only what is seen is in the document. Rows have one height.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";

const HEIGHT_MAX = 15_000_000; // browsers lay out no more than some 30 million pixels
const AROUND = 6;

// `count` rows of `height`; `row(index)` draws one. `pinned`: the end is in sight whenever rows come.
// `onScroll({ top, atEnd, atStart })` after scrolling. A change of `shift` says how many rows went before the first.
export function VirtualList({ count, height, row, pinned = false, shift = 0, reveal = null, onScroll, ...rest }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, size: 600 });
  const whole = count * height;
  const tall = Math.min(whole, HEIGHT_MAX);
  const scale = whole > tall ? (whole - view.size) / Math.max(1, tall - view.size) : 1;
  const shifted = useRef(shift);
  const kept = useRef(pinned);
  kept.current = pinned;

  const measure = () => {
    const element = box.current;
    if (element) setView({ top: element.scrollTop, size: element.clientHeight || 600 });
  };
  useLayoutEffect(() => {
    measure();
    const resized = () => {
      if (kept.current) box.current.scrollTop = box.current.scrollHeight;
      measure();
    };
    const watcher = new ResizeObserver(resized);
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = box.current;
    if (pinned) element.scrollTop = element.scrollHeight;
    else if (shift !== shifted.current) element.scrollTop -= (shift - shifted.current) * height;
    shifted.current = shift;
    measure();
  }, [count, pinned, shift]);
  useEffect(() => {
    if (reveal === null || reveal < 0) return;
    const element = box.current;
    const at = (reveal * height) / scale;
    if (at < element.scrollTop) element.scrollTop = at;
    else if (at + height > element.scrollTop + element.clientHeight) element.scrollTop = at + height - element.clientHeight;
  }, [reveal]);

  const scrolled = () => {
    measure();
    const { scrollTop, scrollHeight, clientHeight } = box.current;
    onScroll?.({ atStart: scrollTop < height * 4, atEnd: scrollHeight - scrollTop - clientHeight < height * 2 });
  };

  const top = view.top * scale;
  const first = Math.max(0, Math.floor(top / height) - AROUND);
  const last = Math.min(count, Math.ceil((top + view.size) / height) + AROUND);
  const rows = [];
  for (let index = first; index < last; index += 1) rows.push(row(index));
  const offset = scale === 1 ? first * height : view.top - (top - first * height);
  return html`
    <div ...${rest} ref=${box} onScroll=${scrolled}>
      <div class="virtual-space" role="presentation" style=${{ height: `${tall}px` }}>
        <div class="virtual-rows" role="presentation" style=${{ transform: `translateY(${offset}px)` }}>${rows}</div>
      </div>
    </div>
  `;
}
