// All streams of the node by their place in the list, as far as they were looked at; or those that begin with a prefix.
import { asJson } from "./api.js";
import { signal } from "./html.js";

const PAGE = 200;
const PAGES_MAX = 60; // kept; the oldest are dropped
const GALLOP = 8;

export class Listing {
  constructor() {
    this.changed = signal(0);
    this.failure = signal(null);
    this.total = signal(null);
    this.pages = new Map();
    this.asked = new Set();
    this.stop = new AbortController();
  }

  end() {
    this.stop.abort();
  }

  // The stream at a place, or null while it is not known; asking for it loads its page.
  at(index) {
    const page = Math.floor(index / PAGE);
    const rows = this.pages.get(page);
    if (!rows) void this.load(page);
    return rows?.[index % PAGE] ?? null;
  }

  // The place of a stream among those that were read, or null.
  find(name) {
    for (const [page, rows] of this.pages) {
      const at = rows.findIndex((each) => each.name === name);
      if (at >= 0) return page * PAGE + at;
    }
    return null;
  }

  async load(page) {
    if (this.asked.has(page)) return;
    this.asked.add(page);
    try {
      const rows = await this.fetch(page * PAGE, PAGE);
      this.pages.set(page, rows);
      if (this.pages.size > PAGES_MAX) this.pages.delete(this.pages.keys().next().value);
      if (rows.length && rows.length < PAGE) this.total.value = page * PAGE + rows.length;
      this.failure.value = null;
    } catch (error) {
      if (!this.stop.signal.aborted) this.failure.value = error;
    } finally {
      this.asked.delete(page);
      this.changed.value += 1;
    }
  }

  fetch(offset, limit) {
    return asJson(`/v1/streams?limit=${limit}&offset=${offset}`, { signal: this.stop.signal });
  }

  // The interface does not count streams, but gives any page at once: the end is found by doubling and halving.
  async measure() {
    try {
      await this.load(0);
      const first = this.pages.get(0) ?? [];
      if (first.length < PAGE) {
        this.total.value = first.length;
        return;
      }
      let known = PAGE;
      let beyond = PAGE * GALLOP;
      while ((await this.fetch(beyond - 1, 1)).length) {
        known = beyond;
        beyond *= GALLOP;
      }
      while (beyond - known > 1) {
        const middle = Math.floor((known + beyond) / 2);
        if ((await this.fetch(middle - 1, 1)).length) known = middle;
        else beyond = middle;
      }
      this.total.value = known;
    } catch (error) {
      if (!this.stop.signal.aborted) this.failure.value = error;
    }
  }
}

// `orders` looks among the streams without a bucket, `team/orders` in the bucket `team`.
export class Found extends Listing {
  constructor(text) {
    super();
    const slash = text.indexOf("/");
    this.bucket = slash < 0 ? "_default" : text.slice(0, slash);
    this.prefix = slash < 0 ? text : text.slice(slash + 1);
    this.rows = [];
    this.after = "";
    this.more = true;
    this.loading = false;
  }

  at(index) {
    if (index >= this.rows.length - 20 && this.more) void this.next();
    return this.rows[index] ?? null;
  }

  measure() {
    return this.next();
  }

  async next() {
    if (this.loading || !this.more) return;
    this.loading = true;
    const query = new URLSearchParams({ prefix: this.prefix, limit: PAGE });
    if (this.after) query.set("after", this.after);
    try {
      const page = await asJson(`/${this.bucket}/streams?${query}`, { signal: this.stop.signal });
      const before = this.bucket === "_default" ? "" : `${this.bucket}/`;
      this.rows.push(...page.streams.map((each) => rowOf(before, each)));
      this.more = page.has_more;
      this.after = page.next_cursor ?? "";
      this.total.value = this.rows.length;
    } catch (error) {
      if (this.stop.signal.aborted) return;
      this.more = false;
      // No such bucket, or nothing that could be one: then nothing begins so.
      if (error.status === 404 || error.status === 400) this.total.value = this.rows.length;
      else this.failure.value = error;
    } finally {
      this.loading = false;
      this.changed.value += 1;
    }
  }
}

const rowOf = (before, each) => ({
  name: before + each.stream_id,
  next_offset: String(each.tail_offset),
  closed: each.status === "Closed",
  content_type: each.content_type,
});
