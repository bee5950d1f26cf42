// What can be said of a change of a schema before the node is asked; it has the last word.
import { faultOf, lineFor, linesOf } from "./jsontext.js";

const MEMBERS = ["schema", "lens", "routingKey", "search"];
const KINDS = ["keyword", "text", "integer", "float", "date", "bool"];

// What is wrong with an update, each as { text, line }; the line is null where nobody knows it.
export function check(text, registry, entries) {
  const fault = faultOf(text);
  if (fault) return [{ text: fault.message, line: fault.line }];
  const update = JSON.parse(text);
  if (!isObject(update)) return [{ text: "an update is an object", line: 1 }];
  const lines = linesOf(text);
  const found = [];
  const say = (said, path) => found.push({ text: said, line: lines.get(path) ?? null });
  for (const each of Object.keys(update)) if (!MEMBERS.includes(each)) say(`${each} is not known; use ${MEMBERS.join(", ")}`, each);
  if (!["schema", "routingKey", "search"].some((each) => each in update)) say("at least one of schema, routingKey and search is needed", "");
  if (update.schema && !registry.currentVersion && entries !== "0") say("a first schema needs a stream without entries, and this one has some", "schema");
  if (update.schema && registry.currentVersion && !update.lens) say("the next version needs a lens from the current one", "schema");
  if (update.search && !update.schema && !registry.currentVersion) say("search needs a schema", "search");
  if (isObject(update.search)) fields(update.search, say);
  else if (update.search != null) say("search is an object, or null to take it away", "search");
  return found;
}

function fields(search, say) {
  const known = isObject(search.fields) ? search.fields : {};
  if (known[search.primaryTimestampField]?.kind !== "date") say("primaryTimestampField has to name a field of kind date", lineOfTime(search));
  for (const [name, field] of Object.entries(known)) {
    const path = `search.fields.${name}`;
    if (!KINDS.includes(field?.kind)) say(`field ${name}: kind is one of ${KINDS.join(", ")}`, field?.kind === undefined ? path : `${path}.kind`);
    const bindings = Array.isArray(field?.bindings) ? field.bindings : [];
    if (!bindings.length) say(`field ${name}: bindings say where the field is`, path);
    bindings.forEach((binding, at) => {
      const pointer = binding?.jsonPointer;
      if (typeof pointer !== "string" || (pointer && !pointer.startsWith("/"))) say(`field ${name}: a jsonPointer begins with /`, `${path}.bindings[${at}]${typeof pointer === "string" ? ".jsonPointer" : ""}`);
    });
  }
  (Array.isArray(search.defaultFields) ? search.defaultFields : []).forEach((each, at) => {
    if (!(each?.field in known)) say(`defaultFields names ${each?.field}, which is no field`, `search.defaultFields[${at}]`);
  });
}

const lineOfTime = (search) => ("primaryTimestampField" in search ? "search.primaryTimestampField" : "search");

// What the node says, with the line of what its message names.
export const refusal = (text, message) => ({ text: message, line: lineFor(message.replace(/^schemaUpdate\./, ""), linesOf(text)) });

// Fields that none of the entries has: a pointer that was mistyped looks so.
export function unseen(text, entries) {
  const { search } = JSON.parse(text);
  if (!search || !entries.length) return [];
  const lines = linesOf(text);
  return Object.entries(search.fields ?? {})
    .filter(([, field]) => Array.isArray(field?.bindings) && !entries.some((entry) => field.bindings.some(({ jsonPointer }) => at(entry, jsonPointer) !== undefined)))
    .map(([name, field]) => ({ text: `field ${name}: none of the last ${entries.length} entries has ${field.bindings.at(-1).jsonPointer}`, line: lines.get(`search.fields.${name}`) ?? null }));
}

// The value at a JSON pointer.
export function at(value, pointer) {
  if (!pointer) return value;
  let here = value;
  for (const part of pointer.slice(1).split("/")) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (here === null || typeof here !== "object" || !Object.hasOwn(here, name)) return undefined;
    here = here[name];
  }
  return here;
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
