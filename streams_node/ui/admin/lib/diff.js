// How one text became another, line by line.

const CELLS_MAX = 4_000_000; // of the table; what is larger is shown as taken out and put in
const AROUND = 3; // equal lines that are shown before and after others

// [kind, text] for each line of both: "-" only of the first, "+" only of the second, " " of both.
export function diff(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let begin = 0;
  while (begin < a.length && begin < b.length && a[begin] === b[begin]) begin += 1;
  let end = 0;
  while (end < Math.min(a.length, b.length) - begin && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const same = (lines) => lines.map((text) => [" ", text]);
  return [...same(a.slice(0, begin)), ...middle(a.slice(begin, a.length - end), b.slice(begin, b.length - end)), ...same(a.slice(a.length - end))];
}

// By the longest common subsequence.
function middle(a, b) {
  if (a.length * b.length > CELLS_MAX) return [...a.map((text) => ["-", text]), ...b.map((text) => ["+", text])];
  const wide = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      longest[i * wide + j] = a[i] === b[j] ? longest[(i + 1) * wide + j + 1] + 1 : Math.max(longest[(i + 1) * wide + j], longest[i * wide + j + 1]);
  const found = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push([" ", a[i]]);
      i += 1;
      j += 1;
    } else if (j === b.length || (i < a.length && longest[(i + 1) * wide + j] >= longest[i * wide + j + 1])) found.push(["-", a[i++]]);
    else found.push(["+", b[j++]]);
  }
  return found;
}

// Without the equal lines that are far from any other: ["…", how many] stands for them.
export function near(lines) {
  const changed = lines.flatMap(([kind], at) => (kind === " " ? [] : [at]));
  const found = [];
  let skipped = 0;
  let next = 0; // the first change at or after the line
  lines.forEach((line, at) => {
    while (next < changed.length && changed[next] < at) next += 1;
    const shown = (changed[next] ?? Infinity) - at <= AROUND || at - (changed[next - 1] ?? -Infinity) <= AROUND;
    if (!shown) skipped += 1;
    else {
      if (skipped) found.push(["…", skipped]);
      skipped = 0;
      found.push(line);
    }
  });
  if (skipped) found.push(["…", skipped]);
  return found;
}
