// A text to edit, with the numbers of its lines, and marks at those that something is said of.
import { html, useEffect, useRef } from "../lib/html.js";

// `marks`: line -> { kind: "bad" or "warn", text }. `reveal`: { line }, anew each time, moves the caret there.
export function Lines({ text, onText, marks, reveal, ...rest }) {
  const area = useRef(null);
  const gutter = useRef(null);
  const count = text.split("\n").length;
  const scrolled = () => (gutter.current.style.transform = `translateY(${-area.current.scrollTop}px)`);
  useEffect(() => {
    if (!reveal) return;
    const before = text.split("\n").slice(0, reveal.line - 1).join("\n");
    const begin = before.length + (reveal.line > 1 ? 1 : 0);
    const end = text.indexOf("\n", begin);
    area.current.focus();
    area.current.setSelectionRange(begin, end < 0 ? text.length : end);
    const height = area.current.scrollHeight / count;
    area.current.scrollTop = Math.max(0, (reveal.line - 0.5) * height - area.current.clientHeight / 2);
  }, [reveal]);
  return html`
    <div class="lines">
      <div class="line-numbers" aria-hidden="true"><div ref=${gutter}>
        ${Array.from({ length: count }, (_, at) => html`<div class=${marks.get(at + 1)?.kind ?? ""} title=${marks.get(at + 1)?.text}>${at + 1}</div>`)}
      </div></div>
      <textarea ...${rest} ref=${area} spellcheck="false" value=${text} onInput=${(event) => onText(event.target.value)} onScroll=${scrolled}></textarea>
    </div>
  `;
}
