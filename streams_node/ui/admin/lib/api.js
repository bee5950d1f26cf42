// Requests to the node: its key, its errors, and the news that it does not answer.
import { key, refused } from "./key.js";
import { lost } from "./link.js";
import { address } from "./place.js";

export class Refusal extends Error {
  constructor(status, error) {
    super(error.message ?? `the node answered ${status}`);
    this.status = status;
    this.code = error.code ?? "unknown";
    this.fields = error;
  }
}

export class Unreachable extends Error {
  constructor() {
    super("the node does not answer");
    this.code = "unreachable";
  }
}

export const streamPath = (name) => `/v1/stream/${name.split("/").map(encodeURIComponent).join("/")}`;

// The response of a request, whatever its status is among `also`; other failures are thrown.
export async function request(path, { also = [], headers = {}, ...options } = {}) {
  const sent = { ...headers };
  if (key.value) sent.Authorization = `Bearer ${key.value}`;
  let response;
  try {
    response = await fetch(address(path), { cache: "no-store", credentials: "omit", ...options, headers: sent });
  } catch (failure) {
    if (options.signal?.aborted) throw failure;
    lost();
    throw new Unreachable();
  }
  if (response.ok || also.includes(response.status)) return response;
  if (response.status === 401) refused.value = true;
  const text = await response.text().catch(() => "");
  let error = {};
  try {
    error = JSON.parse(text).error ?? {};
  } catch {
    error = { message: text.slice(0, 300) || undefined };
  }
  throw new Refusal(response.status, error);
}

export async function asJson(path, options) {
  const response = await request(path, options);
  return body(response, () => response.json());
}

export async function asText(path, options) {
  const response = await request(path, options);
  return body(response, () => response.text());
}

export const post = (path, value, options = {}) =>
  asJson(path, { method: "POST", body: JSON.stringify(value), headers: { "Content-Type": "application/json" }, ...options });

// A connection that breaks in the middle of an answer is a lost one, too.
export async function body(response, read) {
  try {
    return await read();
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    lost();
    throw new Unreachable();
  }
}
