// What the node has said of itself in the document, and which of its listeners a request goes to.
const said = document.querySelector('meta[name="streams-node"]').content;

export const place = JSON.parse(said);

// With an operator's listener this page is on it, and the streams are on the public one.
const OPERATOR = /^\/(metrics$|v1\/server\/|__ursula\/)|\/(_flush|_index\/rebuild)$/;

export function address(path) {
  const [bare] = path.split("?");
  return (OPERATOR.test(bare) ? "" : place.public) + path;
}

export const publicBase = place.public || location.origin;
