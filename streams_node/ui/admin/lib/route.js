// The address of what is shown, behind the #: a server is never sent it, so queries stay out of its logs.
//   #/                          the node
//   #/streams                   the list alone, on narrow screens
//   #/s/{stream}/{tab}?a=b      a stream
import { signal } from "./html.js";

export const TABS = ["messages", "search", "schema", "index", "storage", "producers"];

const read = () => {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean);
  const params = Object.fromEntries(new URLSearchParams(query));
  if (parts[0] === "s" && parts[1]) {
    return { view: "stream", name: decoded(parts[1]), tab: TABS.includes(parts[2]) ? parts[2] : "messages", params };
  }
  return { view: parts[0] === "streams" ? "streams" : "node", params };
};

const decoded = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

export const route = signal(read());

addEventListener("hashchange", () => {
  route.value = read();
});

export function streamLink(name, tab = "messages", params = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== undefined && value !== ""));
  return `#/s/${encodeURIComponent(name)}/${tab}${query.size ? `?${query}` : ""}`;
}

// Notes a parameter in the address without a step in the history.
export function note(params) {
  const { name, tab, params: old } = route.value;
  const link = streamLink(name, tab, { ...old, ...params });
  if (link === location.hash) return;
  history.replaceState(null, "", link);
  route.value = read();
}

export function go(link) {
  location.hash = link;
}
