// The access key: in the memory of this tab only, and never part of an address.
import { signal } from "./html.js";

const NAME = "streams-node.key";

export const key = signal(sessionStorage.getItem(NAME) ?? "");
export const refused = signal(false);

export function keep(text) {
  key.value = text;
  refused.value = false;
  if (text) sessionStorage.setItem(NAME, text);
  else sessionStorage.removeItem(NAME);
}
