/**
 * Runs before each file of the project `unit`, whose files share a process. A file that changes the process fails itself, instead of making a later file fail.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, vi } from "vitest";

/** Events whose listeners change how a process ends or reports. */
const events = ["SIGINT", "SIGTERM", "SIGHUP", "exit", "beforeExit", "warning", "message", "disconnect"];

const listenerCounts = () => Object.fromEntries(events.map((event) => [event, process.listenerCount(event)]));

/** Set while a process has a store engine, of which it may have one: src/store/engine/engine.ts. */
const engineKey = Symbol.for("coral.store.engine");
const processWide = globalThis as { [engineKey]?: boolean };
/** A test that timed out continues in the background, and closes its engine when it ends. */
const engineTimeoutMs = 60_000;

let directory: string;
let environment: NodeJS.ProcessEnv;
let listeners: Record<string, number>;

beforeAll(() => {
  directory = process.cwd();
  environment = { ...process.env };
  listeners = listenerCounts();
});

afterAll(async () => {
  const hasFakeTimers = vi.isFakeTimers();
  vi.useRealTimers();
  for (const startMs = performance.now(); processWide[engineKey] && performance.now() - startMs < engineTimeoutMs; ) await sleep(50);
  const hasEngine = processWide[engineKey] === true;
  // The next file can open one although this one leaked.
  processWide[engineKey] = false;
  expect(hasEngine, "a test left a store engine open").toBe(false);
  expect(hasFakeTimers, "a test left fake timers behind").toBe(false);
  expect(process.cwd(), "a test left another directory behind").toBe(directory);
  expect(listenerCounts(), "a test left listeners of the process behind").toEqual(listeners);
  expect(changedVariables(), "a test left environment variables behind").toEqual([]);
});

/** Names only: values may be secrets of the machine. */
function changedVariables(): string[] {
  const names = new Set([...Object.keys(environment), ...Object.keys(process.env)]);
  return [...names].filter((name) => process.env[name] !== environment[name]);
}
