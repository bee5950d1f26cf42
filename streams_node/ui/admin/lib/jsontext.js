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

// Where parsing failed, as line and column, if the engine says it.
export function problemOf(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (failure) {
    const position = /position (\d+)/.exec(failure.message);
    if (!text.trim()) return "there is nothing yet";
    if (!position) return failure.message.replace(/^.*?JSON/, "JSON");
    const before = text.slice(0, Number(position[1])).split("\n");
    return `${failure.message.replace(/ in JSON.*| \(line.*/, "")}, line ${before.length}, column ${before.at(-1).length + 1}`;
  }
}
