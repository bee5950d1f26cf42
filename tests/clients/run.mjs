// `node run.mjs <scenario> <argument>…`: runs one scenario; a failed assertion is the exit status and a text on stderr.
import * as scenarios from "./scenarios.mjs"

const [name, ...rest] = process.argv.slice(2)
await scenarios[name](...rest)
// Not `process.exit`: a timer or a connection that the client forgot keeps this process alive, and the test sees it.
