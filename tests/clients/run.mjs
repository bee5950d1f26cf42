// `node run.mjs <module>.<scenario> <argument>…`: runs one scenario; a failed assertion is the exit status and a text on stderr.
const [what, ...rest] = process.argv.slice(2)
const [module, name] = what.split(".")
await (await import(`./${module}.mjs`))[name](...rest)
// Not `process.exit`: a timer or a connection that the client forgot keeps this process alive, and the test sees it.
