// The frame of every view: the name of the page, the list of streams beside it, and whether the node answers.
import { html, useEffect, useSignal } from "../lib/html.js";
import { key, keep, refused } from "../lib/key.js";
import { link, now } from "../lib/link.js";
import { useNow } from "../lib/load.js";
import { place } from "../lib/place.js";
import { route } from "../lib/route.js";
import { Icon } from "../parts/states.js";
import { Login } from "./login.js";
import { Node } from "./node.js";
import { Stream } from "./stream.js";
import { Streams } from "./streams.js";
import { nextTheme, theme } from "./theme.js";

export function Shell() {
  const at = route.value;
  useEffect(() => {
    document.title = `${at.name ?? (at.view === "streams" ? "Streams" : "Node")} · Streams Node`;
  }, [at.view, at.name]);
  const locked = place.key && (!key.value || refused.value);
  return html`
    <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), document.getElementById("main").focus())}>
      Skip to the content
    </a>
    <div class="frame" data-view=${at.view}>
      <${Bar} at=${at} />
      <${Away} />
      ${!locked && html`<${Streams} selected=${at.name} />`}
      <main id="main" tabindex="0">
        ${locked ? html`<${Login} />` : at.view === "stream" ? html`<${Stream} key=${at.name} name=${at.name} />` : html`<${Node} />`}
      </main>
    </div>
  `;
}

function Bar({ at }) {
  return html`
    <header class="bar">
      <a class="brand" href="#/" aria-label="Streams Node, overview">
        <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
          <rect width="32" height="32" rx="8" class="brand-tile" />
          <g fill="none" stroke="#fff" stroke-width="2.6" stroke-linecap="round">
            <path d="M7 10.500c4-3 7 3 11 0s5-1 7-1.500" /><path d="M7 16.500c4-3 7 3 11 0s5-1 7-1.500" opacity=".8" />
            <path d="M7 22.500c4-3 7 3 11 0s5-1 7-1.500" opacity=".55" />
          </g>
        </svg>
        <span>Streams Node</span>
      </a>
      <nav aria-label="Page">
        <a href="#/" aria-current=${at.view === "node" ? "page" : null}>Overview</a>
        <a class="narrow-only" href="#/streams" aria-current=${at.view === "streams" ? "page" : null}>Streams</a>
      </nav>
      <span class="grow"></span>
      <${Standing} />
      <button class="ghost" onClick=${nextTheme} aria-label=${`Colours: ${theme.value}. Change`} title=${`Colours: ${theme.value}`}>
        <${Icon} name="moon" />
      </button>
      ${place.key && key.value && html`<button class="ghost" onClick=${() => keep("")} title="Forget the key" aria-label="Forget the key"><${Icon} name="key" /></button>`}
    </header>
  `;
}

function Standing() {
  const { up } = link.value;
  return html`
    <span class="pill ${up ? "good" : "bad"}" role="status">
      <i class="dot"></i>${up ? "Connected" : "Not connected"}
    </span>
  `;
}

// Said only after a moment: a node that restarts quickly is not worth a shout.
function Away() {
  const { up, since, next, asking } = link.value;
  const time = useNow(500);
  const back = useSignal(false);
  useEffect(() => {
    if (!up) back.value = true;
    else if (back.peek()) {
      const timer = setTimeout(() => (back.value = false), 3000);
      return () => clearTimeout(timer);
    }
    return undefined;
  }, [up]);
  if (up) return html`<div class="away-place" role="status">${back.value && html`<div class="banner good">The node is back. Everything is being read anew.</div>`}</div>`;
  const wait = Math.max(0, Math.ceil((next - time) / 1000));
  return html`
    <div class="away-place" role="alert">
      <div class="banner bad">
        <${Icon} name="alert" />
        <span>
          <strong>The node does not answer</strong> since ${new Date(since).toLocaleTimeString("en-GB")}.
          What is shown is from before. ${asking || !wait ? "Asking again…" : `Asking again in ${wait} s.`}
        </span>
        <button class="plain" onClick=${now}>Ask now</button>
      </div>
    </div>
  `;
}
