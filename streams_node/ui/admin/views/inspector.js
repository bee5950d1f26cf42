// One message in full: as a tree, as it was sent, as bytes; and how to get it from elsewhere.
import { html, useEffect, useLayoutEffect, useRef, useSignal } from "../lib/html.js";
import { publicBase, place } from "../lib/place.js";
import { streamPath } from "../lib/api.js";
import { bytes, count } from "../lib/format.js";
import { offsetAt } from "../lib/offsets.js";
import { bytesOf, isJson, page } from "../lib/pages.js";
import { streamLink } from "../lib/route.js";
import { Copy } from "../parts/copy.js";
import { Tree } from "../parts/tree.js";
import { Failure, Icon, Loading } from "../parts/states.js";

const HEX_BYTES_MAX = 16 * 1024;
const RAW_CHARS_MAX = 512 * 1024;
const CHAR_EM = 0.61; // the width of a sign in fonts where all are as wide

export function Inspector({ name, stream, seq, tail, choose, close }) {
  const form = useSignal(isJson(stream.content_type) ? "tree" : stream.content_type.startsWith("text/") ? "raw" : "hex");
  const loaded = useSignal(null);
  const known = tail?.messages.find((each) => each.seq === seq && !(each.end > seq + 1));
  const token = offsetAt(stream.epochs, seq);
  useEffect(() => {
    if (known) return undefined;
    const stop = new AbortController();
    loaded.value = null;
    page({ name, type: stream.content_type, epochs: stream.epochs }, { offset: token }, stop.signal, 1).then(
      ({ messages }) => (loaded.value = { message: messages[0], none: !messages.length }),
      (error) => stop.signal.aborted || (loaded.value = { error }),
    );
    return () => stop.abort();
  }, [seq, Boolean(known)]);
  const message = known ?? loaded.value?.message;
  const forms = isJson(stream.content_type) ? ["tree", "raw", "hex"] : stream.content_type.startsWith("text/") ? ["raw", "hex"] : ["hex", "raw"];
  return html`
    <aside class="inspector" aria-label=${`Message ${seq}`}>
      <header>
        <h2>Message ${count(seq)}</h2>
        <span class="quiet small">${message ? bytes(bytesOf(message).length) : ""}</span>
        <span class="grow"></span>
        <button class="ghost" aria-label="The message before" disabled=${seq === 0} onClick=${() => choose(seq - 1)}>‹</button>
        <button class="ghost" aria-label="The next message" disabled=${seq + 1 >= Number(stream.next_offset)} onClick=${() => choose(seq + 1)}>›</button>
        <button class="ghost" aria-label="Close the message" onClick=${close}><${Icon} name="close" size=${16} /></button>
      </header>
      <div class="segmented" role="group" aria-label="How it is shown">
        ${forms.map((each) => html`<button aria-pressed=${form.value === each ? "true" : "false"} onClick=${() => (form.value = each)}>${{ tree: "Tree", raw: "Raw", hex: "Hex" }[each]}</button>`)}
      </div>
      <div class="inspector-body" tabindex="0" role="region" aria-label="Content of the message">
        ${loaded.value?.error && !message
          ? html`<${Failure} error=${loaded.value.error} title="This message could not be read" />`
          : loaded.value?.none && !message
            ? html`<p class="quiet">There is no message ${seq} yet.</p>`
            : message
              ? html`<${Content} message=${message} form=${form.value} />`
              : html`<${Loading} what="Reading the message" />`}
      </div>
      <footer>
        <${Copy} label="Link" text=${`${location.origin}/ui${streamLink(name, "messages", { at: offsetAt(stream.epochs, seq + 1) })}`} icon="link" />
        <${Copy} label="Copy" text=${message?.text ?? ""} disabled=${message?.text === undefined} />
        <${Copy} label="curl" text=${curl(name, token)} />
        <${Copy} label="Python" text=${python(name, token)} />
      </footer>
      <dl class="facts small"><div><dt>Offset before it</dt><dd><code>${token}</code></dd></div></dl>
    </aside>
  `;
}

function Content({ message, form }) {
  if (form === "hex") return html`<${Hex} data=${bytesOf(message)} />`;
  if (form === "raw") {
    const text = message.text ?? new TextDecoder("latin1").decode(message.bytes);
    return html`<pre class="raw">${text.slice(0, RAW_CHARS_MAX)}</pre>${text.length > RAW_CHARS_MAX && html`<p class="quiet small">Cut after ${bytes(RAW_CHARS_MAX)}.</p>`}`;
  }
  try {
    return html`<${Tree} value=${JSON.parse(message.text)} />${/\d{16}/.test(message.text) && html`<p class="quiet small">Large numbers may be rounded here; Raw shows them as they were sent.</p>`}`;
  } catch {
    return html`<pre class="raw">${message.text}</pre>`;
  }
}

function Hex({ data }) {
  const [box, wide] = useBytesInLine();
  const lines = [];
  for (let at = 0; at < Math.min(data.length, HEX_BYTES_MAX); at += wide) {
    const part = data.subarray(at, at + wide);
    const hex = Array.from(part, (each) => each.toString(16).padStart(2, "0")).join(" ").padEnd(3 * wide - 1);
    const text = Array.from(part, (each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex}  ${text}`);
  }
  return html`<pre class="hex" ref=${box}>${lines.join("\n")}</pre>${data.length > HEX_BYTES_MAX && html`<p class="quiet small">The first ${bytes(HEX_BYTES_MAX)} of ${bytes(data.length)}.</p>`}`;
}

// As many bytes as fit beside what they are as text: 16, 8 or 4.
function useBytesInLine() {
  const box = useRef(null);
  const wide = useSignal(16);
  useLayoutEffect(() => {
    const measured = () => {
      const chars = box.current.clientWidth / (parseFloat(getComputedStyle(box.current).fontSize) * CHAR_EM);
      wide.value = [16, 8].find((each) => 9 + 4 * each <= chars) ?? 4;
    };
    measured();
    const watcher = new ResizeObserver(measured);
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  return [box, wide.value];
}

// A page of one byte holds one message: entries are never split.
const address = (name, token) => `${publicBase}${streamPath(name)}?offset=${token}&max_bytes=1`;

function curl(name, token) {
  const header = place.key ? '-H "Authorization: Bearer $STREAMS_API_KEY" ' : "";
  return `curl -sS ${header}'${address(name, token)}'`;
}

function python(name, token) {
  const header = place.key ? ', headers={"Authorization": f"Bearer {os.environ[\'STREAMS_API_KEY\']}"}' : "";
  return `import os, urllib.request

request = urllib.request.Request("${address(name, token)}"${header})
with urllib.request.urlopen(request) as answer:
    print(answer.read().decode())
`;
}
