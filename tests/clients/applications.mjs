// What is built on the published client, with a node below it. Each function gets the address of a stream that nobody
// else uses, and names what it needs beside it. Most of them are told by the node's going away when to begin again.
import assert from "node:assert/strict"
import { setTimeout as sleep } from "node:timers/promises"
import { DurableStream, stream } from "@durable-streams/client"

const JSON_TYPE = "application/json"
const WAIT_MS = 40_000
const POLL_MS = 20

/** One line for the test that started this. */
const say = (value) => console.log(JSON.stringify(value))

async function until(holds, what) {
  const end = Date.now() + WAIT_MS
  while (!(await holds())) {
    if (Date.now() > end) assert.fail(`not within ${WAIT_MS} ms: ${typeof what === "function" ? what() : what}`)
    await sleep(POLL_MS)
  }
}

/** Whether the node answers. */
async function ready(url) {
  try {
    const answer = await fetch(new URL("/readyz", url))
    await answer.arrayBuffer()
    return answer.ok
  } catch {
    return false
  }
}

const away = (url) => until(async () => !(await ready(url)), "the node goes away")

/** Wait until the node was away and is back. */
async function restarted(url) {
  await away(url)
  await until(() => ready(url), "the node is back")
}

const entriesOf = async (url) => (await stream({ url, offset: "-1", json: true })).json()

// --- @durable-streams/state ------------------------------------------------------------------------------------------

/** Any object; the schema's own rules are not what is tried here. */
const anything = { "~standard": { version: 1, vendor: "test", validate: (value) => ({ value }) } }

/**
 * Two databases on one stream: what one of them does optimistically comes back to both, in order. They live over a restart
 * of the node; a third one that begins afterwards, and a fold of all events, have the same in the end.
 */
export async function state(url) {
  const { createStateSchema, MaterializedState } = await import("@durable-streams/state")
  const { createStreamDB } = await import("@durable-streams/state/db")
  const schema = createStateSchema({
    tasks: { schema: anything, type: "task", primaryKey: "id" },
    users: { schema: anything, type: "user", primaryKey: "name" },
  })
  let txid = 0
  const open = (live) =>
    createStreamDB({
      streamOptions: { url, contentType: JSON_TYPE, backoffOptions: { initialDelay: 20, maxDelay: 200, multiplier: 1.3 } },
      state: schema,
      live,
      actions: ({ db, stream: handle }) => ({
        add: {
          onMutate: (task) => db.collections.tasks.insert(task),
          mutationFn: async (task) => {
            const headers = { txid: `t${txid++}` }
            await handle.append(JSON.stringify(schema.tasks.insert({ value: task, headers })))
            await db.utils.awaitTxId(headers.txid, WAIT_MS)
          },
        },
      }),
    })
  const tasks = (db) => Object.fromEntries(db.collections.tasks.toArray.map(({ id, done }) => [id, done]))

  const handle = await DurableStream.create({ url, contentType: JSON_TYPE })
  const events = (...list) => Promise.all(list.map((event) => handle.append(JSON.stringify(event))))
  await events(
    schema.users.insert({ value: { name: "ann", age: 30 } }),
    schema.tasks.insert({ value: { id: "0", done: false } }),
    schema.users.update({ value: { name: "ann", age: 31 } })
  )
  const dbs = [open("long-poll"), open(true)]
  await Promise.all(dbs.map((db) => db.preload()))
  assert.equal(dbs[0].collections.users.get("ann").age, 31)

  await Promise.all([1, 2, 3].map((id) => dbs[id % 2].actions.add({ id: String(id), done: false }).isPersisted.promise))
  await events(schema.tasks.delete({ key: "2" }), schema.tasks.upsert({ value: { id: "1", done: true } }))
  const before = { 0: false, 1: true, 3: false }
  await until(() => dbs.every((db) => JSON.stringify(tasks(db)) === JSON.stringify(before)), () => JSON.stringify(dbs.map(tasks)))

  say("ready")
  await restarted(url)
  await dbs[0].actions.add({ id: "4", done: false }).isPersisted.promise
  await events(schema.tasks.update({ value: { id: "3", done: true } }))
  const after = { ...before, 3: true, 4: false }
  await until(() => dbs.every((db) => JSON.stringify(tasks(db)) === JSON.stringify(after)), () => JSON.stringify(dbs.map(tasks)))

  const late = open(false)
  await late.preload()
  assert.deepEqual(tasks(late), after)
  const folded = new MaterializedState()
  folded.applyBatch(await entriesOf(url))
  assert.deepEqual(Object.fromEntries([...folded.getType("task")].map(([key, { done }]) => [key, done])), after)
  for (const db of [...dbs, late]) db.close()
}


// --- @durable-streams/y-durable-streams ---------------------------------------------------------------------------------

/**
 * Two editors write into one document, and a watcher only reads; the node goes away in the middle of it and comes back.
 * The editors begin again with what they had. A watcher that polls just waits; an event stream that broke off behind the
 * server of documents is never told so by it, so that one begins again. All of them, and one who comes last, agree.
 */
export async function editors(url, live) {
  const Y = await import("yjs")
  const { Awareness } = await import("y-protocols/awareness")
  const { YjsProvider } = await import("@durable-streams/y-durable-streams")
  const { YjsServer } = await import("@durable-streams/y-durable-streams/server")
  // Its server is a client of the node; so small a threshold makes it write snapshots and delete old ones.
  const log = console.log
  console.log = () => {} // it says so at each snapshot, and a line here is for the test
  const server = new YjsServer({ dsServerUrl: new URL(url).origin, compactionThreshold: 2000 })
  await server.start()
  const docId = new URL(url).pathname.split("/").at(-1)
  const baseUrl = `${server.url}/v1/yjs/editors`

  const open = async (options = {}) => {
    const doc = new Y.Doc()
    const provider = new YjsProvider({ doc, baseUrl, docId, liveMode: live, ...options })
    provider.on("error", () => {}) // what fails while the node is away is begun again below
    await until(() => provider.synced, "an editor is in step")
    return { doc, provider }
  }
  let edits = 0
  const edit = ({ doc }, random) => {
    const text = doc.getText("text")
    if (text.length > 20 && random % 4 === 0) text.delete(random % (text.length - 5), 5)
    else text.insert(random % (text.length + 1), `<${edits}>`)
    doc.getMap("count").set(`k${random % 7}`, edits++)
  }
  const content = ({ doc }) => JSON.stringify([doc.getText("text").toString(), doc.getMap("count").toJSON()])
  // Keys of a map come in the order in which they arrived, which is nobody's business.
  const same = (all) => all.every(({ doc }) => alike(Y, doc, all[0].doc))
  const agree = (all, when) => until(() => same(all), () => `${when}: ${all.map(content).join("\n")}`)
  const type = async (all, count) => {
    for (let at = 0; at < count; at++) {
      edit(all[at % all.length], (at * 7919 + edits * 31) % 1009)
      if (at % 3 === 0) await sleep(2)
    }
  }

  const names = ["ann", "bob"]
  const aware = names.map(() => new Awareness(new Y.Doc()))
  let both = await Promise.all(aware.map((awareness) => open({ awareness })))
  const watcher = await open()
  aware.forEach((awareness, at) => awareness.setLocalStateField("user", names[at]))
  const seen = (awareness) => [...awareness.getStates().values()].map(({ user }) => user).sort()
  await until(() => aware.every((each) => seen(each).join() === names.join()), () => aware.map(seen).join(" and "))
  await type(both, 60)
  await agree([...both, watcher], "before")

  console.log = log
  say("ready")
  console.log = () => {}
  await restarted(url)
  both = await Promise.all(
    both.map(async (old) => {
      old.provider.destroy()
      const again = await open()
      Y.applyUpdate(again.doc, Y.encodeStateAsUpdate(old.doc)) // what of it was not stored, is sent
      return again
    })
  )
  if (live === "sse") {
    await watcher.provider.disconnect()
    await watcher.provider.connect()
  }
  await type(both, 60)
  await agree([...both, watcher], "after")
  const late = await open()
  await agree([both[0], late], "late")
  assert.equal(edits, 120)
  assert.ok(content(late).length > 100)
  const snapshots = await entriesOf(`${new URL(url).origin}/v1/stream/yjs/editors/docs/${docId}/.index`)
  assert.ok(snapshots.length > 0, "no snapshot was made")
  for (const { provider } of [...both, watcher, late]) provider.destroy()
  for (const awareness of aware) awareness.destroy()
  await server.stop()
  process.exit() // it leaves its event streams from the node open, until the node ends them after a minute
}

function alike(Y, one, other) {
  return (
    one.getText("text").toString() === other.getText("text").toString() &&
    Y.equalSnapshots(Y.snapshot(one), Y.snapshot(other))
  )
}

// --- @durable-streams/aisdk-transport, for the Vercel AI SDK ----------------------------------------------------------------

/**
 * A model's answer is written into the stream while a chat reads it. A page that is loaded again in the middle, and a node
 * that goes away and comes back, cost nothing of it: what the chat has in the end is what the model has said.
 */
export async function chat(url) {
  const { AbstractChat, createUIMessageStream } = await import("ai")
  const { createDurableChatTransport, toDurableStreamResponse } = await import("@durable-streams/aisdk-transport")
  const words = [...Array(60).keys()].map((n) => `word-${n} `)
  let spoken = 0
  let written = null
  let answering = false

  /** The application's own server, without a network in between. */
  const fetchClient = async (where, request) => {
    if (request.method === "GET") return answering ? Response.json({ streamUrl: url }) : new Response(null, { status: 204 })
    assert.equal(JSON.parse(request.body).messages.at(-1).parts[0].text, "tell me")
    answering = true
    const source = createUIMessageStream({
      execute: async ({ writer }) => {
        writer.write({ type: "text-start", id: "1" })
        for (const delta of words) {
          writer.write({ type: "text-delta", id: "1", delta })
          if (++spoken === words.length / 2) {
            say("half")
            await away(url) // what is said from here on cannot be stored at once
          }
          await sleep(25)
        }
        writer.write({ type: "text-end", id: "1" })
      },
    })
    const waitUntil = (task) => (written = task)
    return toDurableStreamResponse({ source, stream: { writeUrl: url }, waitUntil })
  }

  class Page extends AbstractChat {
    constructor(messages, transport) {
      const state = {
        status: "ready",
        error: undefined,
        messages,
        pushMessage: (message) => state.messages.push(message),
        popMessage: () => state.messages.pop(),
        replaceMessage: (at, message) => (state.messages[at] = message),
        snapshot: (value) => structuredClone(value),
      }
      super({ id: "chat", transport, state })
    }
    get said() {
      const last = this.messages.at(-1)
      return last?.role === "assistant" ? last.parts.map((part) => part.text ?? "").join("") : ""
    }
  }
  const transport = createDurableChatTransport({ api: "http://app.test/chat", fetchClient })
  const first = new Page([], transport)
  const sending = first.sendMessage({ text: "tell me" })
  await until(() => first.said.startsWith("word-0 "), "the answer begins")
  const asked = first.messages.slice(0, 1)
  await first.stop()
  await sending
  assert.notEqual(first.said, words.join(""), "it was over before the page was loaded again")

  // An event stream that breaks off may be an error of the chat, which then resumes from the start of the answer.
  let page
  await until(async () => {
    page = new Page(structuredClone(asked), transport)
    await page.resumeStream()
    return page.said === words.join("")
  }, () => page.said)
  await written
  answering = false
  await new Page([], transport).resumeStream() // 204: there is nothing to resume
  assert.equal(page.messages.length, 2)
  const answer = await stream({ url, offset: "-1", json: true })
  const deltas = (await answer.json()).filter(({ type }) => type === "text-delta").map(({ delta }) => delta)
  assert.deepEqual(deltas, words)
  assert.equal(answer.streamClosed, true)
}
