// Starts the reference server with a data folder: `node reference.mjs DATA_DIR PORT`.
// Nothing else is set, so every other option has the package's own default.
import { DurableStreamTestServer } from "@durable-streams/server"

const [dataDir, port] = process.argv.slice(2)
const server = new DurableStreamTestServer({ host: "127.0.0.1", port: Number(port), dataDir })
await server.start()
process.on("SIGTERM", () => server.stop().finally(() => process.exit(0)))
