// Clauses of the query language, and what of the schema they can be built of.

// Everything after the words is a string: what has a blank, a colon, a comparison, or begins like a negation is quoted.
export function quoted(value) {
  return /^[^\s:()<>="\\*-][^\s:()<>="\\*]*$/.test(value) ? value : `"${value.replace(/["\\]/g, "\\$&")}"`;
}

export const OPERATORS = {
  is: { text: "is", build: (field, value) => `${field}:${quoted(value)}` },
  not: { text: "is not", build: (field, value) => `-${field}:${quoted(value)}` },
  prefix: { text: "begins with", build: (field, value) => `${field}:${value.replace(/[\s:()<>="\\*]/g, "")}*` },
  words: { text: "has the words", build: (field, value) => `${field}:${value.trim().includes(" ") ? `"${value.replace(/["\\]/g, "\\$&")}"` : quoted(value)}` },
  more: { text: "≥", build: (field, value) => `${field}:>=${quoted(value)}` },
  less: { text: "<", build: (field, value) => `${field}:<${quoted(value)}` },
  has: { text: "exists", build: (field) => `has:${field}`, bare: true },
  without: { text: "does not exist", build: (field) => `-has:${field}`, bare: true },
};

export function operatorsOf(field) {
  const found = [];
  const known = field.exact || field.column;
  if (field.kind === "text") found.push("words");
  else if (field.kind === "keyword" ? field.exact : known) found.push("is", "not");
  if (field.kind === "keyword" && field.prefix) found.push("prefix");
  if (["integer", "float", "date"].includes(field.kind) && field.column) found.push("more", "less");
  if (field.kind === "text" || known || field.exists) found.push("has", "without");
  return found;
}

export const and = (query, clause) => {
  const old = query.trim();
  if (!old) return clause;
  return /\bOR\b/i.test(old) && !/^\(.*\)$/.test(old) ? `(${old}) ${clause}` : `${old} ${clause}`;
};

const within = (field) => new RegExp(`\\s*${field.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}:(>=|<)"[^"]*"`, "g");

// The query with one range of time; an earlier one is taken out.
export function ranged(query, field, from, to) {
  return and(query.replace(within(field), ""), `${field}:>="${new Date(from).toISOString()}" ${field}:<"${new Date(to).toISOString()}"`);
}

export const unranged = (query, field) => query.replace(within(field), "").trim();

// Something that every record has which can be found by time: where nobody has asked for anything yet.
export function everything(search) {
  const primary = search.fields[search.primaryTimestampField];
  return primary && (primary.exact || primary.column) ? `has:${search.primaryTimestampField}` : "";
}
