/**
 * A program for kill tests: the agent's real store, link and service, fed with numbered rows instead of samples. After each append it
 * logs the result with a single O_APPEND write per line, so that the log contains acknowledged appends only:
 *
 *     ok <signal> <firstSeq> <lastSeq> <epoch> <run> <firstNumber>
 *     no <signal> <rows> <error code> <reason>
 */

import { mkdirSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { loadAgentId } from "../../src/agent/agent-id.ts";
import { addAgentService } from "../../src/agent/link/agent-service.ts";
import { ColonyLink } from "../../src/agent/link/colony-link.ts";
import { systemClock } from "../../src/base/clock.ts";
import { CoralError } from "../../src/base/errors.ts";
import { createLogger, formatJsonLine, streamSink } from "../../src/base/log.ts";
import { agentPaths } from "../../src/config/index.ts";
import { openAgentStore } from "../../src/store/agent/index.ts";
import { openEngine } from "../../src/store/engine/index.ts";
import { hostCpu, hostProcess, signals } from "../../src/store/signals/index.ts";
import type { LoadAgentSettings } from "./start-load-agent.ts";

const settings = JSON.parse(process.env["LOAD_AGENT"] ?? "") as LoadAgentSettings;
const { home, run, notesFile, rowsPerAppend, pauseMs } = settings;
const paths = agentPaths(home);
for (const directory of [paths.dataDirectory, paths.identityDirectory]) mkdirSync(directory, { recursive: true, mode: 0o700 });
const log = createLogger("load", "info", streamSink(process.stderr, formatJsonLine));
const clock = systemClock;
const stopped = new AbortController();
process.once("SIGTERM", () => stopped.abort());

const engine = await openEngine({
  dataDirectories: [paths.dataDirectory],
  memoryLimitBytes: settings.memoryBytes,
  threads: 1,
  log: log.child("engine"),
});
const store = await openAgentStore(engine, {
  file: paths.databaseFile,
  signals,
  maxBytes: 512 * 1024 * 1024,
  clock,
  log: log.child("store"),
});
const agentId = await loadAgentId(paths.idFile, "load");
const endpointFile = `${paths.identityDirectory}/endpoint`;
const link = new ColonyLink({
  agentId,
  identityDirectory: paths.identityDirectory,
  colonyId: undefined,
  endpoint: settings.endpoint,
  obtainToken: () => Promise.resolve(process.env["CORAL_JOIN_TOKEN"]),
  locateColony: () => Promise.resolve(undefined),
  describe: () => ({
    protocolVersion: 2,
    version: "0.0.0-test",
    host: { hostname: "load", machineId: settings.machineId, bootId: "boot", os: "Linux", kernel: "0", arch: "x64" },
    epoch: store.epoch,
    labels: {},
    capabilities: [],
    wallMs: BigInt(Date.now()),
  }),
  routes: (router, sessionId) => addAgentService(router, { agentId, sessionId, store, clock }),
  endpointFile: {
    read: () => Promise.resolve(readFileSync(endpointFile, "utf8")),
    write: (endpoint) => Promise.resolve(writeFileSync(endpointFile, endpoint)),
  },
  clock,
  log: log.child("link"),
});

const notes = openSync(notesFile, "a");
let number = 0;

function time(): { at: number; mono_ms: number } {
  return { at: Math.round(clock.wallMs() * 1_000), mono_ms: clock.monotonicMs() };
}

/** `exe` is padding, so that the WAL reaches its checkpoint threshold within seconds. */
function processRow(row: number) {
  const identity = { pid: run, start_ticks: row, name: `${run}-${row}`, exe: `${row} `.repeat(100), user_id: 0, cgroup: null };
  const figures = { state: "S", cpu_cores: 0, rss_bytes: 0, threads: 1, open_files: null, major_faults_per_s: 0 };
  return { ...time(), ...identity, ...figures };
}

/** Two of the ratios encode run and number. Few cores, because each one is a separate key in the roll-up. */
function cpuRow(row: number) {
  const zeros = { system_ratio: 0, iowait_ratio: 0, steal_ratio: 0, softirq_ratio: 0 };
  return { ...time(), core: row % 4, busy_ratio: run, user_ratio: row, ...zeros };
}

async function appendOnce(name: "host_process" | "host_cpu"): Promise<void> {
  const first = number;
  number += rowsPerAppend;
  const numbers = Array.from({ length: rowsPerAppend }, (_, index) => first + index);
  try {
    const { firstSeq, lastSeq } =
      name === "host_process" ? await store.append(hostProcess, numbers.map(processRow)) : await store.append(hostCpu, numbers.map(cpuRow));
    writeSync(notes, `ok ${name} ${firstSeq} ${lastSeq} ${store.epoch} ${run} ${first}\n`);
  } catch (error) {
    const { code, message } = CoralError.from(error);
    writeSync(notes, `no ${name} ${rowsPerAppend} ${code} ${message}\n`);
    await sleep(50);
  }
}

async function load(name: "host_process" | "host_cpu"): Promise<void> {
  while (!stopped.signal.aborted) {
    await appendOnce(name);
    await sleep(pauseMs, undefined, { signal: stopped.signal }).catch(() => undefined);
  }
}

log.info("load agent is ready", { agentId, epoch: store.epoch, opened: store.opened });
await Promise.all([link.run(stopped.signal), load("host_process"), load("host_cpu")]);
await store.close();
await engine.close();
