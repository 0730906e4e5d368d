/** Runs in a container of a test: prints where it is, as the agent would find out. */

import { detectRuntime } from "../../src/host/index.ts";

const found = await detectRuntime({
  env: process.env,
  override: { runtimeType: "", sidecarMode: "" },
  targets: [],
  signal: AbortSignal.timeout(20_000),
});
process.stdout.write(`${JSON.stringify(found)}\n`);
