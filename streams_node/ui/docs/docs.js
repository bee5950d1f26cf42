// Draws /openapi.json. Nothing is written as HTML: every text becomes a text node, so none can become markup.
const SHOWN_CHARS_MAX = 100_000
const content = document.getElementById("content")
const state = document.getElementById("state")
const nav = document.getElementById("nav")
const key = document.getElementById("key")
const filter = document.getElementById("filter")

/** An element with attributes and children; a string child becomes a text node. */
function el(name, attributes = {}, ...children) {
  const node = document.createElement(name)
  for (const [attribute, value] of Object.entries(attributes)) {
    if (attribute.startsWith("on")) node.addEventListener(attribute.slice(2), value)
    else if (value === true) node.setAttribute(attribute, "")
    else if (value !== false && value != null) node.setAttribute(attribute, value)
  }
  node.append(...children.flat(Infinity).filter((child) => child != null))
  return node
}

/** Text with `code` in it, as the document has it. */
const inline = (text) => text.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part))
const prose = (text) => text.trim().split(/\n{2,}/).map((paragraph) => el("p", {}, inline(paragraph)))

const authorized = (headers = {}) => (key.value ? { ...headers, Authorization: `Bearer ${key.value}` } : headers)

async function load() {
  state.textContent = "Loading the document…"
  state.hidden = false
  try {
    const answer = await fetch("/openapi.json", { headers: authorized() })
    if (answer.status === 401) {
      state.textContent = "This node has a key. Enter it on the left to see the document."
      key.focus()
    } else if (answer.ok) {
      draw(await answer.json())
    } else {
      state.textContent = `The document could not be loaded: ${answer.status}. Load the page again.`
    }
  } catch (reason) {
    state.textContent = `The node does not answer: ${reason.message}. Load the page again.`
  }
}

function draw(api) {
  state.hidden = true
  document.getElementById("version").textContent = `interface, version ${api.info.version}`
  const deref = (node) => (node.$ref ? node.$ref.slice(2).split("/").reduce((at, name) => at[name], api) : node)
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation }))
  )
  content.replaceChildren(state, el("h1", {}, "Interface"), ...prose(api.info.description))
  nav.replaceChildren()
  for (const tag of api.tags) {
    const members = operations.filter((operation) => operation.tags.includes(tag.name))
    nav.append(el("h2", { id: `nav-${tag.name}` }, tag.name), el("ul", { "aria-labelledby": `nav-${tag.name}` }, members.map(entry)))
    content.append(el("h2", {}, tag.name), ...prose(tag.description), ...members.map((each) => section(each, deref)))
  }
  narrow()
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView()
}

const method = (operation) => el("span", { class: `method ${operation.method}` }, operation.method.toUpperCase())

function entry(operation) {
  const text = `${operation.method} ${operation.path} ${operation.summary}`.toLowerCase()
  return el(
    "li",
    { "data-text": text },
    el("a", { href: `#${operation.operationId}`, title: operation.summary }, method(operation), el("span", { class: "path" }, operation.path))
  )
}

function section(operation, deref) {
  const id = operation.operationId
  return el(
    "section",
    { class: "operation", id, "aria-labelledby": `${id}-title`, "data-text": `${operation.method} ${operation.path} ${operation.summary}`.toLowerCase() },
    el(
      "h3",
      { id: `${id}-title` },
      method(operation),
      el("span", { class: "path" }, operation.path),
      el("span", { class: "tag" }, operation["x-route-class"]),
      operation.security.length ? el("span", { class: "tag", title: "Needs the node's key, if it has one" }, "key") : null
    ),
    ...prose(operation.description),
    inputs(operation),
    answers(operation, deref),
    tryIt(operation)
  )
}

function inputs(operation) {
  if (!operation.parameters.length) return null
  return [
    el("h4", {}, "Inputs"),
    table(
      ["Name", "Where", "Meaning"],
      operation.parameters.map((input) => [
        el("code", {}, input.name),
        input.in,
        [inline(input.description), choices(input.schema)],
      ])
    ),
  ]
}

function choices(schema) {
  const said = []
  if (schema.enum?.length > 1) said.push(["one of ", schema.enum.map((each, at) => [at ? ", " : "", el("code", {}, each)])])
  if (schema.default !== undefined) said.push(["default ", el("code", {}, String(schema.default))])
  if (schema.examples) said.push(["as in ", schema.examples.map((each, at) => [at ? ", " : "", el("code", {}, each)])])
  return said.length ? el("p", { class: "quiet" }, said.map((each, at) => [at ? "; " : "", each])) : null
}

function answers(operation, deref) {
  const rows = Object.entries(operation.responses).map(([status, answer]) => [
    el("strong", {}, status),
    [
      prose(answer.description),
      Object.keys(answer.headers ?? {}).length
        ? el("p", { class: "quiet" }, "Headers: ", Object.keys(answer.headers).map((name, at) => [at ? ", " : "", el("code", {}, name)]))
        : null,
      shape(answer.content?.["application/json"]?.schema, deref),
    ],
  ])
  return [el("h4", {}, "Answers"), table(["Status", "Meaning"], rows)]
}

/** The fields of a JSON answer, and of the objects in it. */
function shape(schema, deref) {
  const view = schema && deref(schema)
  const list = view?.type === "array" ? deref(view.items) : view
  if (!list?.properties || list.properties.error) return null
  const inner = Object.values(list.properties).find((field) => field.type === "array" && field.items?.$ref)
  return el(
    "details",
    {},
    el("summary", {}, view === list ? "Fields" : "Fields of each element"),
    table(
      ["Field", "Type", "Meaning"],
      Object.entries(list.properties).map(([name, field]) => [el("code", {}, name), typeOf(field), inline(field.description ?? "")])
    ),
    inner ? shape({ type: "array", items: inner.items }, deref) : null
  )
}

const typeOf = (field) => field.type ?? field.anyOf?.map((each) => each.type).join(" or ") ?? "any"

const table = (heads, rows) =>
  el(
    "div",
    { class: "wide" },
    el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell) => el("td", {}, cell))))))
  )

// --- a request from this page -------------------------------------------------------------------------------------------

function tryIt(operation) {
  const fields = operation.parameters.map((input) => ({ input, control: control(operation, input) }))
  const reads = ["get", "head"].includes(operation.method)
  const command = el("pre", { tabindex: 0, "aria-label": "The request as a command" }, el("code", {}))
  const show = () => (command.firstChild.textContent = curl(operation, request(operation, fields)))
  const status = el("p", { role: "status" })
  const body = el("pre", { class: "answer", tabindex: 0, hidden: true, "aria-label": "The answer" })
  const stop = el("button", { type: "button", class: "plain", disabled: true }, "Stop")
  const form = el(
    "form",
    {
      oninput: show,
      onsubmit: (event) => {
        event.preventDefault()
        if (reads) send(operation, request(operation, fields), { status, body, stop })
      },
    },
    el("div", { class: "fields" }, fields.map(({ input, control }) => el("label", {}, input.name, control))),
    command,
    reads ? [el("button", { type: "submit" }, "Send"), " ", stop] : el("p", { class: "quiet" }, "This page only reads; copy the command to change something.")
  )
  show()
  key.addEventListener("input", show)
  return el("details", {}, el("summary", {}, reads ? "Try it" : "As a command"), form, reads ? [status, body] : null)
}

function control(operation, input) {
  const name = `${operation.operationId}-${input.in}-${input.name}`
  if (input.schema.enum?.length > 1) {
    return el("select", { name }, el("option", { value: "" }, ""), input.schema.enum.map((each) => el("option", {}, each)))
  }
  const firsts = { path: "hello", stream: "hello", bucket: "demo", offset: input.schema.type === "string" ? "-1" : "" }
  return el("input", { name, value: firsts[input.name] ?? "", required: input.in === "path", autocomplete: "off", spellcheck: "false" })
}

function request(operation, fields) {
  let path = operation.path
  const query = new URLSearchParams()
  const headers = {}
  for (const { input, control } of fields) {
    const value = control.value
    if (input.in === "path") path = path.replace(`{${input.name}}`, value.split("/").map(encodeURIComponent).join("/"))
    else if (value && input.in === "query") query.append(input.name, value)
    else if (value) headers[input.name] = value
  }
  return { url: query.size ? `${path}?${query}` : path, headers }
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`

function curl(operation, { url, headers }) {
  const lines = [`curl -i ${{ get: "", head: "--head " }[operation.method] ?? `-X ${operation.method.toUpperCase()} `}${quoted(location.origin + url)}`]
  if (key.value) lines.push('-H "Authorization: Bearer $STREAMS_API_KEY"')
  lines.push(...Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`))
  if (operation.requestBody) lines.push("--data-binary @entries.json")
  return lines.join(" \\\n  ")
}

async function send(operation, { url, headers }, { status, body, stop }) {
  const abort = new AbortController()
  stop.disabled = false
  stop.onclick = () => abort.abort()
  body.textContent = ""
  body.hidden = true
  status.textContent = "Waiting for the answer…"
  try {
    const answer = await fetch(url, { method: operation.method.toUpperCase(), headers: authorized(headers), signal: abort.signal, cache: "no-store" })
    status.textContent = `${answer.status} ${answer.statusText}`
    body.hidden = false
    body.textContent = [...answer.headers].map(([name, value]) => `${name}: ${value}\n`).join("") + "\n"
    await follow(answer, body)
  } catch (reason) {
    status.textContent = abort.signal.aborted ? `${status.textContent} (stopped)` : `No answer: ${reason.message}`
  } finally {
    stop.disabled = true
  }
}

/** Shows a body while it comes, as that of an event stream does. */
async function follow(answer, body) {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader()
  for (let part = await reader?.read(); part && !part.done; part = await reader.read()) {
    body.append(part.value)
    if (body.textContent.length > SHOWN_CHARS_MAX) {
      body.append("\n… more than this page shows")
      await reader.cancel()
      return
    }
  }
}

// --- finding an operation -----------------------------------------------------------------------------------------------

function narrow() {
  const wanted = filter.value.trim().toLowerCase()
  for (const node of document.querySelectorAll("[data-text]")) node.hidden = !node.dataset.text.includes(wanted)
  const found = document.querySelectorAll("section.operation:not([hidden])").length
  document.getElementById("found").textContent = wanted ? `${found} operation${found === 1 ? "" : "s"} found` : ""
}

filter.addEventListener("input", narrow)
key.addEventListener("change", () => (state.hidden ? undefined : load()))
document.getElementById("settings").addEventListener("submit", (event) => {
  event.preventDefault()
  if (!state.hidden) load()
})
load()
