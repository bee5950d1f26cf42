// Light, dark, or as the reader's system has it.
import { effect, signal } from "../lib/html.js";

const NAME = "streams-node.theme";
const ORDER = ["system", "light", "dark"];
const kept = localStorage.getItem(NAME);

export const theme = signal(ORDER.includes(kept) ? kept : "system");

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem(NAME, theme.value);
});

export function nextTheme() {
  theme.value = ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length];
}
