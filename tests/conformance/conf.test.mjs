// The published suite, whole, against the node at CONFORMANCE_TEST_URL. What must pass is decided in run.py, not here.
import { describe } from "vitest"
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

describe("target", () =>
  runConformanceTests({
    baseUrl: process.env.CONFORMANCE_TEST_URL,
    longPollTimeoutMs: 20000, // only raises the time limits of the tests that wait out a long-poll
    subscriptions: true,
  }))
