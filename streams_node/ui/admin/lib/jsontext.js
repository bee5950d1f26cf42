// JSON as text: the messages of an array as they were sent, without reading numbers that JavaScript would round.

// The elements of the array that `text` is, each as its own text.
export function elements(text) {
  const found = [];
  let depth = 0;
  let begin = -1;
  let at = text.indexOf("[") + 1;
  for (; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 34) {
      if (begin < 0) begin = at;
      at = closing(text, at);
    } else if (code === 123 || code === 91) {
      if (begin < 0) begin = at;
      depth += 1;
    } else if (code === 125 || code === 93) {
      if (depth === 0) break; // the end of the array
      depth -= 1;
    } else if (code === 44 && depth === 0) {
      if (begin >= 0) found.push(text.slice(begin, at).trimEnd());
      begin = -1;
    } else if (begin < 0 && code > 32) begin = at;
  }
  if (begin >= 0) found.push(text.slice(begin, at).trimEnd());
  return found;
}

function closing(text, open) {
  let at = open + 1;
  for (;;) {
    at = text.indexOf('"', at);
    if (at < 0) return text.length;
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === 92) slashes += 1;
    if (slashes % 2 === 0) return at;
    at += 1;
  }
}

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|\b(true|false|null)\b/g;

// Pieces of [text, kind], for colours; what is between tokens has no kind.
export function pieces(text) {
  const found = [];
  let last = 0;
  for (const match of text.matchAll(TOKEN)) {
    if (match.index > last) found.push([text.slice(last, match.index), ""]);
    if (match[1] !== undefined) {
      found.push([match[1], match[2] === undefined ? "string" : "name"]);
      if (match[2] !== undefined) found.push([match[2], ""]);
    } else found.push([match[0], match[3] === undefined ? "word" : "number"]);
    last = match.index + match[0].length;
  }
  if (last < text.length) found.push([text.slice(last), ""]);
  return found;
}

// Why a text is no JSON, and in which line, counted from 1; null when it is some.
export function faultOf(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (failure) {
    if (!text.trim()) return { message: "there is nothing yet", line: 1 };
    const [line, column] = placeOf(text, failure.message);
    const said = failure.message
      .replace(/^JSON\.parse: /, "")
      .replace(/,? ?(\.\.\.)?"[^]*is not valid JSON$| in JSON[^]*| \(line[^]*| at line[^]*/, "")
      .replace("of JSON input", "of the text");
    return { message: `${said}, line ${line}, column ${column}`, line };
  }
}

// Where the parser says it is, or where we find it.
export function placeOf(text, message) {
  const told = / line (\d+) column (\d+) of the JSON data/.exec(message);
  if (told) return [Number(told[1]), Number(told[2])];
  const before = text.slice(0, faultAt(text)).split("\n");
  return [before.length, before.at(-1).length + 1];
}

// The first character that no JSON goes on with: up to it there is nothing wrong but that the text ends. Not all messages
// of the parser say where it is.
function faultAt(text) {
  let [low, high] = [0, text.length]; // a beginning of `low` characters is right; one of `high` + 1 would not be
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (couldGoOn(text.slice(0, middle))) low = middle;
    else high = middle - 1;
  }
  return low;
}

function couldGoOn(text) {
  try {
    JSON.parse(text);
    return true;
  } catch ({ message }) {
    return /end of JSON input|Unterminated string/.test(message) || message.includes(`at position ${text.length}`);
  }
}

export const problemOf = (text) => faultOf(text)?.message ?? null;

// The lines at which the values of a JSON text begin, by their paths as messages name them: `search.fields.at`, `ops[0].op`.
export function linesOf(text) {
  const found = new Map([["", 1]]);
  const open = []; // the objects and arrays around: { path, list, at }
  let line = 1;
  let path = "";
  const begins = () => {
    const here = open.at(-1);
    if (here?.list) path = `${here.path}[${here.at}]`;
    if (here?.list || !here) found.set(path, line);
  };
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at];
    if (sign === "\n") line += 1;
    else if (sign === '"') {
      const end = closing(text, at);
      const here = open.at(-1);
      if (here && !here.list && here.naming) {
        const name = JSON.parse(text.slice(at, end + 1));
        path = here.path ? `${here.path}.${name}` : name;
        if (!found.has(path)) found.set(path, line);
        here.naming = false;
      } else begins();
      at = end;
    } else if (sign === "{" || sign === "[") {
      begins();
      open.push({ path, list: sign === "[", at: 0, naming: sign === "{" });
    } else if (sign === "}" || sign === "]") open.pop();
    else if (sign === ",") {
      const here = open.at(-1);
      if (here?.list) here.at += 1;
      else if (here) here.naming = true;
    } else if (sign !== ":" && sign > " " && !/[\w.+-]/.test(text[at - 1] ?? " ")) begins();
  }
  return found;
}

// The line that a message is about: where the longest path that it names begins.
export function lineFor(message, lines) {
  let best = "";
  for (const path of lines.keys()) if (path.length > best.length && names(message, path)) best = path;
  return best ? lines.get(best) : null;
}

function names(message, path) {
  const at = message.indexOf(path);
  return at >= 0 && !/[\w$]/.test(message[at - 1] ?? " ") && !/[\w$]/.test(message[at + path.length] ?? " ");
}
