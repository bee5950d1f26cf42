// A dialog in front of the page; the browser keeps the focus in it. Escape and its own buttons close it.
import { html, useEffect, useId, useRef, useSignal } from "../lib/html.js";
import { straight } from "../lib/format.js";
import { Icon, Said } from "./states.js";

export function Dialog({ title, close, children, wide = false }) {
  const box = useRef(null);
  const id = useId();
  useEffect(() => {
    const dialog = box.current;
    dialog.showModal();
    const left = () => close?.(); // a step back in the history is no answer to what it asks
    addEventListener("hashchange", left);
    return () => {
      removeEventListener("hashchange", left);
      dialog.close(); // the browser gives the focus back to where it was
    };
  }, []);
  const closed = (event) => {
    event.preventDefault();
    close?.();
  };
  return html`
    <dialog ref=${box} class=${wide ? "wide" : ""} aria-labelledby=${id} onCancel=${closed}>
      <header>
        <h2 id=${id}>${title}</h2>
        ${close && html`<button class="ghost" aria-label="Close" onClick=${close}><${Icon} name="close" /></button>`}
      </header>
      ${children}
    </dialog>
  `;
}

// Asks for the stream's name before something that cannot be taken back.
export function Confirm({ title, name, action, close, done, run, children }) {
  const typed = useSignal("");
  const state = useSignal({});
  const same = [name, straight(name)].includes(typed.value);
  const submit = async (event) => {
    event.preventDefault();
    if (!same || state.value.busy) return;
    state.value = { busy: true };
    try {
      await run();
      close();
      done?.();
    } catch (error) {
      state.value = { error };
    }
  };
  return html`
    <${Dialog} title=${title} close=${close}>
      <form onSubmit=${submit}>
        ${children}
        <label class="field">
          <span>Type <code>${straight(name)}</code> to confirm</span>
          <input autofocus autocomplete="off" spellcheck="false" value=${typed.value}
            onInput=${(event) => (typed.value = event.target.value)} />
        </label>
        <${Trouble} error=${state.value.error} />
        <footer>
          <button type="button" class="plain" onClick=${close}>Cancel</button>
          <button class="danger" disabled=${!same || state.value.busy}>${action}</button>
        </footer>
      </form>
    <//>
  `;
}

export function Trouble({ error }) {
  return html`<div aria-live="assertive">${error && html`<p class="trouble"><${Said} text=${error.message} /></p>`}</div>`;
}
