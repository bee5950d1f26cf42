// What the published TypeScript client does with a node. Each function gets the address of a stream that nobody else uses.
import assert from "node:assert/strict"
import { randomBytes } from "node:crypto"
import { setTimeout as sleep } from "node:timers/promises"
import { DurableStream, IdempotentProducer, StaleEpochError, stream } from "@durable-streams/client"

const JSON_TYPE = "application/json"
const WAIT_MS = 20_000

/** One line for the test that started this. */
const say = (value) => console.log(JSON.stringify(value))

/** The rejection of a promise; fails when it is none of the wanted kind. */
async function refusal(promise, check) {
  const error = await promise.then(
    () => assert.fail("was not refused"),
    (reason) => reason
  )
  check(error)
  return error
}

/** All entries up to the end. `live: false` would be one page: with the default the client asks on until it is at the end. */
const collected = async (url) => (await stream({ url, offset: "-1", json: true })).json()

/**
 * Everything that a live read delivers until the stream is closed, and where each batch ended. The client repeats requests
 * that fail; an event stream that breaks off in the middle is an error, after which a reader begins again where it was.
 */
async function followed(url, options, onItems = () => {}) {
  const signal = AbortSignal.timeout(WAIT_MS)
  const items = []
  const offsets = [options.offset]
  const follow = async () => {
    const response = await stream({ url, json: true, signal, ...options, offset: offsets.at(-1) })
    await new Promise((resolve, reject) => {
      response.subscribeJson((batch) => {
        items.push(...batch.items)
        offsets.push(batch.offset)
        onItems(items)
        if (batch.streamClosed) resolve()
      })
      // Its end may be told before its last batch is.
      response.closed.then(() => sleep(1000)).then(() => reject(new Error("ended, but not closed")), reject)
    })
  }
  for (;;) {
    try {
      await follow()
      return { items, offsets: offsets.slice(1) }
    } catch (error) {
      if (!options.patient || signal.aborted) throw error
    }
  }
}

// --- create, append, read, head, delete ---------------------------------------------------------------------------------

export async function json(url) {
  const handle = await DurableStream.create({ url, contentType: JSON_TYPE, body: JSON.stringify([{ n: 0 }]) })
  await handle.append(JSON.stringify({ n: 1 }))
  await Promise.all([2, 3, 4].map((n) => handle.append(JSON.stringify({ n }))))
  await handle.append(JSON.stringify([[5, "nested arrays are opened one level only"]]))

  const items = await collected(url)
  assert.deepEqual(items.slice(0, 5), [0, 1, 2, 3, 4].map((n) => ({ n })))
  assert.equal(items.length, 6)

  const head = await handle.head()
  assert.equal(head.exists, true)
  assert.equal(head.contentType, JSON_TYPE)
  assert.equal(head.streamClosed, false)
  const atEnd = await stream({ url, offset: head.offset, live: false, json: true })
  assert.deepEqual(await atEnd.json(), [])
  assert.equal(atEnd.upToDate, true)

  // A second create with the same properties is the first one's confirmation, with others it is a conflict.
  await DurableStream.create({ url, contentType: JSON_TYPE })
  await refusal(DurableStream.create({ url, contentType: "text/plain" }), (error) => assert.equal(error.status, 409))

  await handle.delete()
  assert.deepEqual(await DurableStream.head({ url }), { exists: false })
  await refusal(collected(url), (error) => {
    assert.equal(error.status, 404)
    assert.equal(error.json.error.code, "not_found")
  })
}

export async function bytes(url) {
  const parts = [1, 70_000, 1_500_000].map((size) => randomBytes(size))
  const handle = await DurableStream.create({ url, contentType: "application/octet-stream", batching: false })
  for (const part of parts) await handle.append(part)
  const response = await stream({ url, offset: "-1" })
  assert.equal(response.contentType, "application/octet-stream")
  assert.ok(Buffer.concat(parts).equals(Buffer.from(await response.body())))
}

export async function text(url) {
  const poem = "ünïcödé\r\nline\nother\rline\u2028still the same\n\n"
  await DurableStream.create({ url, contentType: "text/plain; charset=utf-8", body: poem })
  assert.equal(await (await stream({ url, offset: "-1", live: false })).text(), poem)
}

export async function lifetime(url) {
  await DurableStream.create({ url, contentType: JSON_TYPE, ttlSeconds: 3600 })
  const answer = await fetch(url, { method: "HEAD" })
  assert.equal(answer.headers.get("stream-ttl"), "3600")
  await refusal(DurableStream.create({ url, contentType: JSON_TYPE, ttlSeconds: 60 }), (error) =>
    assert.equal(error.status, 409)
  )
}

export async function sequence(url) {
  const handle = await DurableStream.create({ url, contentType: JSON_TYPE, batching: false })
  await handle.append("1", { seq: "a-1" })
  await handle.append("2", { seq: "a-2" })
  await refusal(handle.append("3", { seq: "a-2" }), (error) => assert.equal(error.status, 409))
  assert.deepEqual(await collected(url), [1, 2])
}

// --- live reads -----------------------------------------------------------------------------------------------------

/** Entries come while they are awaited, in order, and the end of the stream is the end of the read. */
export async function tail(url, live) {
  const handle = await DurableStream.create({ url, contentType: JSON_TYPE, body: JSON.stringify([0]) })
  const seen = followed(url, { offset: "-1", live })
  for (let n = 1; n <= 20; n++) {
    await handle.append(JSON.stringify(n))
    if (n % 5 === 0) await sleep(30)
  }
  await handle.close({ body: JSON.stringify("last") })
  const { items, offsets } = await seen
  assert.deepEqual(items, [...Array(21).keys(), "last"])
  assert.deepEqual(offsets, [...offsets].sort(), "offsets only grow")
  assert.equal(offsets.at(-1), (await handle.head()).offset)
}

/** Bytes over an event stream travel as base64; the client gives back what was appended. */
export async function tailBytes(url, live) {
  const parts = [1, 2, 3, 4, 1000, 65_537].map((size) => randomBytes(size))
  const handle = await DurableStream.create({ url, contentType: "application/octet-stream", batching: false })
  const response = await stream({ url, offset: "-1", live, signal: AbortSignal.timeout(WAIT_MS) })
  const chunks = []
  const ended = new Promise((resolve, reject) => {
    response.subscribeBytes((chunk) => {
      chunks.push(Buffer.from(chunk.data))
      if (chunk.streamClosed) resolve()
    })
    response.closed.catch(reject)
  })
  for (const part of parts) {
    await handle.append(part)
    await sleep(10)
  }
  await handle.close()
  await ended
  assert.ok(Buffer.concat(parts).equals(Buffer.concat(chunks)))
}

/** A read that begins at `now` sees only what comes later. */
export async function tailFromNow(url, live) {
  const handle = await DurableStream.create({ url, contentType: JSON_TYPE, body: JSON.stringify(["old", "older"]) })
  const seen = followed(url, { offset: "now", live })
  await sleep(300) // a long-poll does not say when it has begun
  await handle.append(JSON.stringify("new"))
  await handle.close()
  assert.deepEqual((await seen).items, ["new"])
}

export async function closing(url) {
  const handle = await DurableStream.create({ url, contentType: JSON_TYPE })
  await handle.append("1")
  const { finalOffset } = await handle.close()
  assert.deepEqual(await handle.close(), { finalOffset }, "closing twice is closing once")
  await refusal(handle.append("2"), (error) => {
    assert.equal(error.status, 409)
    assert.equal(error.json.error.code, "stream_closed")
    assert.equal(error.headers["stream-next-offset"], finalOffset)
  })
  const response = await stream({ url, offset: "-1", live: false, json: true })
  assert.deepEqual(await response.json(), [1])
  assert.equal(response.streamClosed, true)
  assert.equal(response.offset, finalOffset)
}

// --- producers ------------------------------------------------------------------------------------------------------

/** Many small appends, batched and several requests at a time: each stored once, in order. */
export async function producer(url) {
  const handle = await DurableStream.create({ url, contentType: JSON_TYPE })
  const writer = new IdempotentProducer(handle, "writer", { lingerMs: 1, maxInFlight: 5, maxBatchBytes: 200 })
  const wanted = [...Array(2000).keys()]
  for (const n of wanted) {
    writer.append(JSON.stringify(n))
    if (n % 50 === 0) await sleep(1)
  }
  await writer.flush()
  assert.deepEqual(await collected(url), wanted)
  assert.equal(writer.lastSuccessfulOffset, (await handle.head()).offset)
  const { finalOffset } = await writer.close(JSON.stringify("end"))
  assert.deepEqual((await collected(url)).at(-1), "end")
  assert.equal((await handle.head()).offset, finalOffset)
  assert.equal((await handle.head()).streamClosed, true)
}

/** The answer of a stored append is lost; the producer sends it again and it is there once. */
export async function producerRetry(url) {
  const handle = await DurableStream.create({ url, contentType: JSON_TYPE })
  const statuses = []
  const forgetful = async (...request) => {
    const first = await fetch(...request)
    const second = await fetch(...request)
    statuses.push([first.status, second.status])
    return second
  }
  const writer = new IdempotentProducer(handle, "writer", { fetch: forgetful, lingerMs: 0, maxInFlight: 1 })
  for (const n of [1, 2, 3]) {
    writer.append(JSON.stringify(n))
    await writer.flush()
  }
  assert.deepEqual(statuses, Array(3).fill([200, 204]))
  assert.deepEqual(await collected(url), [1, 2, 3])
}

/** A producer that was replaced is fenced; one that starts with an old epoch can claim the next one. */
export async function producerFencing(url) {
  const handle = await DurableStream.create({ url, contentType: JSON_TYPE })
  const errors = []
  const first = new IdempotentProducer(handle, "writer", { lingerMs: 0, onError: (error) => errors.push(error) })
  first.append("1")
  await first.flush()
  const second = new IdempotentProducer(handle, "writer", { lingerMs: 0, epoch: 1 })
  second.append("2")
  await second.flush()
  first.append('"refused"')
  await first.flush()
  assert.equal(errors.length, 1)
  assert.ok(errors[0] instanceof StaleEpochError, String(errors[0]))
  assert.equal(errors[0].currentEpoch, 1)
  const third = new IdempotentProducer(handle, "writer", { lingerMs: 0, autoClaim: true })
  third.append("3")
  await third.flush()
  assert.equal(third.epoch, 2)
  assert.deepEqual(await collected(url), [1, 2, 3])
}

// --- a restart of the node ---------------------------------------------------------------------------------------------

/** Reads up to the end, says where that is, and goes on from there when the test says so. */
export async function catchUp(url, offset) {
  const response = await stream({ url, offset, json: true })
  say({ items: await response.json(), offset: response.offset })
}

/** Follows a stream while the node goes away and comes back; every entry once. Says how many it has. */
export async function tailAcrossRestart(url, live) {
  const { items } = await followed(
    url,
    {
      offset: "-1",
      live,
      patient: true,
      backoffOptions: { initialDelay: 20, maxDelay: 200, multiplier: 1.3 },
      sseResilience: { logWarnings: false },
    },
    (seen) => say(seen.length)
  )
  assert.deepEqual(items, [...items.keys()])
  say({ items: items.length })
}

/** Appends numbers while the node goes away and comes back: the producer repeats what was not answered. */
export async function producerAcrossRestart(url, count) {
  const handle = await DurableStream.connect({ url })
  const failures = []
  const patient = async (...request) => {
    for (;;) {
      try {
        const answer = await fetch(...request)
        if (answer.status < 500) return answer
        await answer.arrayBuffer()
      } catch (reason) {
        failures.push(String(reason))
      }
      await sleep(50)
    }
  }
  const writer = new IdempotentProducer(handle, "writer", { fetch: patient, lingerMs: 0, maxBatchBytes: 1, maxInFlight: 3 })
  for (let n = 0; n < Number(count); n++) {
    writer.append(JSON.stringify(n))
    if (n % 10 === 0) say(n)
    await sleep(4)
  }
  await writer.flush()
  await writer.close()
  say({ failures: failures.length })
}
