/** Runs inside a test's container and prints the environment that the agent detects there. */

import { detectRuntime } from "../../src/host/index.ts";

const found = await detectRuntime({
  env: process.env,
  override: { runtimeType: "", sidecarMode: "" },
  targets: [],
  signal: AbortSignal.timeout(20_000),
});
process.stdout.write(`${JSON.stringify(found)}\n`);
