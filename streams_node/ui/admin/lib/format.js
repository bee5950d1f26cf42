// Numbers with units, and moments with their age.
const count_ = new Intl.NumberFormat("en");
const short_ = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => (value == null ? "unknown" : count_.format(Number(value)));
export const short = (value) => (Math.abs(value) < 10_000 ? count_.format(Math.round(value * 10) / 10) : short_.format(value));

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${Number(value) === 1 ? one : many}`;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value) {
  if (value == null) return "unknown";
  let size = Number(value);
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${UNITS[unit]}`;
}

export function duration(ms) {
  if (ms == null) return "unknown";
  const size = Math.max(0, Number(ms));
  if (size < 1000) return `${Math.round(size)} ms`;
  if (size < 60_000) return `${(size / 1000).toFixed(size < 10_000 ? 1 : 0)} s`;
  if (size < 3_600_000) return `${Math.floor(size / 60_000)} min`;
  if (size < 172_800_000) return `${Math.floor(size / 3_600_000)} h`;
  return `${Math.floor(size / 86_400_000)} days`;
}

export const age = (text, now = Date.now()) => {
  if (!text) return "never";
  const ms = now - new Date(text).getTime();
  return ms < 2000 ? "just now" : `${duration(ms)} ago`;
};

export const moment = (text) => {
  if (!text) return "never";
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? String(text) : date.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
};

// Reads restart a sliding window, and nobody is told of that: it is as long as it is, and its end is not known.
export const ends = ({ expires_at: at, ttl_seconds: window }) => (!at ? "never" : window == null ? moment(at) : `${duration(1000 * window)} after its last use`);

const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// Signs that turn the order of what follows them are shown as what they are, and turn nothing.
export const straight = (text) => text.replace(TURNING, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);

export const clock = (ms) => {
  const date = new Date(ms);
  const two = (value) => String(value).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, "0")}`;
};
