// A stream's server-sent events over fetch: an EventSource could only send the key in the address.
import { body, request } from "./api.js";

// Calls `act(kind, data)` for each event until the connection ends.
export async function follow(path, signal, act) {
  const response = await request(path, { headers: { Accept: "text/event-stream" }, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await body(response, () => reader.read());
    if (done) return;
    rest += value;
    let begin = 0;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n", begin)) {
      event(rest.slice(begin, end), act);
      begin = end + 2;
    }
    if (begin) rest = rest.slice(begin);
  }
}

function event(text, act) {
  let kind = "message";
  const data = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("event:")) kind = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.startsWith("data: ") ? line.slice(6) : line.slice(5));
  }
  if (data.length) act(kind, data.join("\n"));
}
