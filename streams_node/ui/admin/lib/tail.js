// The window of messages that is shown: at the end of the stream and moving with it, or standing somewhere in it.
import { signal } from "./html.js";
import { follow } from "./events.js";
import { elements } from "./jsontext.js";
import { lost, whenUp } from "./link.js";
import { decode, offsetAt } from "./offsets.js";
import { chunk, isJson, isText, page, stretch } from "./pages.js";
import { streamPath } from "./api.js";

const MESSAGES_MAX = 10_000; // kept; more than anybody scrolls through
const CHARS_MAX = 24 << 20;
const BEFORE = 100; // shown of the past when a view opens
const SHOW_MS = 120; // a fast stream is drawn eight times a second
const RETRY_MS = 1500;

export class Tail {
  constructor(stream) {
    this.stream = stream; // { name, type, epochs, earliest }
    this.messages = [];
    this.chars = 0;
    this.shift = 0; // how many were put before the first that was shown, less those that were dropped there
    this.next = null; // the offset after the last message
    this.tick = signal(0); // grows when there is something to draw
    // kind: loading, live, paused, error; atEnd and atStart: nothing more that way; closed: nothing will come
    this.state = signal({ kind: "loading" });
    this.came = 0; // messages since the window opened, for the rate
    this.stop = new AbortController();
    this.timer = null;
  }

  end() {
    this.stop.abort();
    clearTimeout(this.timer);
  }

  get first() {
    return this.messages[0]?.seq ?? (this.next ? decode(this.next).seq : 0);
  }

  // Opens at `from`: { live: true }, { offset }, or { since }.
  async open(from, end) {
    try {
      if (from.live) await this.atTail(end);
      else {
        const got = await page(this.stream, from, this.stop.signal);
        this.take(got.messages);
        this.next = got.next;
        if (this.messages.length < BEFORE / 4) await this.earlier();
        this.say({ kind: "paused", atEnd: got.atEnd, closed: got.closed });
      }
    } catch (error) {
      this.failed(error, () => this.open(from, end));
    }
  }

  async atTail(end) {
    const first = Math.max(this.stream.earliest, end - BEFORE);
    this.next = offsetAt(this.stream.epochs, end);
    if (end > first) this.take(await stretch(this.stream, first, end, this.stop.signal));
    void this.live();
  }

  // Follows the stream from `next` on, over connections that end and nodes that restart.
  async live() {
    const mine = new AbortController();
    this.following = mine;
    this.stop.signal.addEventListener("abort", () => mine.abort(), { once: true });
    this.say({ kind: "live" });
    while (!mine.signal.aborted) {
      try {
        await whenUp(mine.signal);
        await follow(`${streamPath(this.stream.name)}?offset=${this.next}&live=sse`, mine.signal, (kind, data) => this.event(kind, data));
      } catch (error) {
        if (mine.signal.aborted) return;
        if (error.code !== "unreachable") {
          if (error.status && error.status < 500 && error.status !== 429) {
            this.failed(error, () => this.live());
            return;
          }
          await new Promise((done) => setTimeout(done, RETRY_MS));
        }
      }
      if (this.state.peek().closed) return;
    }
  }

  pause() {
    this.following?.abort();
    if (this.state.peek().kind === "live") this.say({ kind: "paused", atEnd: true, closed: this.state.peek().closed });
  }

  // Goes on from where it was; over more than a window it jumps to the end.
  async resume(end) {
    const at = decode(this.next).seq;
    if (end - at > MESSAGES_MAX / 2) {
      this.messages = [];
      this.chars = 0;
      await this.atTail(end).catch((error) => this.failed(error, () => this.resume(end)));
    } else void this.live();
  }

  event(kind, data) {
    if (kind === "data") this.held = data;
    if (kind !== "control") return;
    const said = JSON.parse(data);
    if (this.held !== undefined) {
      const end = decode(said.streamNextOffset).seq;
      this.take(this.received(this.held, end));
      this.held = undefined;
    }
    this.next = said.streamNextOffset;
    if (said.streamClosed) this.say({ kind: "live", closed: true });
  }

  received(data, end) {
    const at = Date.now();
    if (isJson(this.stream.type)) {
      const texts = elements(data);
      this.came += texts.length;
      return texts.map((text, index) => ({ seq: end - texts.length + index, text, at }));
    }
    const seq = decode(this.next).seq;
    this.came += end - seq;
    if (isText(this.stream.type)) return [{ seq, end, text: data, at }];
    return [{ ...chunk(this.stream, seq, end, Uint8Array.from(atob(data), (each) => each.charCodeAt(0))), at }];
  }

  take(messages) {
    for (const each of messages) this.chars += size(each);
    this.messages.push(...messages);
    let drop = Math.max(0, this.messages.length - MESSAGES_MAX);
    while (this.chars > CHARS_MAX && drop < this.messages.length - 1) this.chars -= size(this.messages[drop++]);
    if (drop) {
      this.messages.splice(0, drop);
      this.chars = this.messages.reduce((sum, each) => sum + size(each), 0);
      this.shift -= drop;
    }
    this.draw();
  }

  async earlier() {
    const { earliest } = this.stream;
    if (this.loading || this.first <= earliest) return;
    this.loading = true;
    try {
      const end = this.first;
      const found = await stretch(this.stream, Math.max(earliest, end - BEFORE), end, this.stop.signal);
      this.messages.unshift(...found);
      for (const each of found) this.chars += size(each);
      this.shift += found.length;
      // What is far below is read again by who goes back there.
      if (this.messages.length > MESSAGES_MAX) {
        this.messages.length = MESSAGES_MAX;
        this.next = offsetAt(this.stream.epochs, this.messages.at(-1).seq + 1);
        this.say({ ...this.state.peek(), atEnd: false });
      }
    } catch (error) {
      this.failed(error, null);
    } finally {
      this.loading = false;
      this.draw();
    }
  }

  async later() {
    if (this.loading || this.state.peek().kind !== "paused") return;
    this.loading = true;
    try {
      const got = await page(this.stream, { offset: this.next }, this.stop.signal);
      this.take(got.messages);
      this.next = got.next;
      this.say({ kind: "paused", atEnd: got.atEnd, closed: got.closed });
    } catch (error) {
      this.failed(error, null);
    } finally {
      this.loading = false;
    }
  }

  say(state) {
    this.state.value = state;
    this.draw();
  }

  failed(error, again) {
    if (this.stop.signal.aborted || error.name === "AbortError") return;
    if (error.code === "unreachable") {
      lost();
      if (again) void whenUp(this.stop.signal).then(() => this.stop.signal.aborted || again());
      return;
    }
    this.say({ ...this.state.peek(), kind: "error", error });
  }

  draw() {
    if (this.timer !== null) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.tick.value += 1;
    }, SHOW_MS);
  }
}

const size = (message) => message.text?.length ?? message.bytes.length;
