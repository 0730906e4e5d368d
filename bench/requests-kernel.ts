/**
 * Overhead and accuracy of request tracing: time in BPF programs, CPU of nginx and of a Node service per request with hooks on and off in turns (at
 * sockets, and at system calls), counts and percentiles compared with those of wrk.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { buildHttpExchange } from "./lib/http-exchange.ts";
import { measureOnOff, type OnOff } from "./lib/on-off.ts";
import { startRedisLoad } from "./lib/redis.ts";
import { type Figure, figureOf, isSmall, report, single } from "./lib/report.ts";
import { otherWatchers, type ProgramTime, RequestWatch, requireBpf } from "./lib/request-watch.ts";
import { quartilesOf } from "./lib/spread.ts";
import { freePort, nodeRole, serveNode, startNginx, startNode, type WebServer } from "./lib/web-servers.ts";
import { role, roleArguments } from "./lib/worker.ts";
import { type LatencyCounts, latencyPercentileUs, Wrk, type WrkResult } from "./lib/wrk.ts";

const slices = isSmall ? 4 : 12;
/** The programs' position in memory changes their cost, so they are reloaded this many times. */
const programLoads = isSmall ? 1 : 4;
/** Slices with and without hooks alternate; short ones keep drift of the CPU frequency out of the comparison. */
const sliceMs = 350;
/** An empty reply is so cheap that noise dominates: each slice is the mean of many short turns. */
const emptyTurns = { turns: isSmall ? 2 : 6, sliceMs: 100 };
const timedSlices = isSmall ? 2 : 6;
const loadSeconds = isSmall ? 2 : 3;
const loads = isSmall ? 1 : 3;
const connections = 16;
/** Load before the first slice. */
const warmMs = 1_000;
const variants = ["sockets", "syscalls"] as const;

type Watches = Readonly<Record<(typeof variants)[number], RequestWatch>> & AsyncDisposable;

async function openWatches(): Promise<Watches> {
  const sockets = await RequestWatch.open("sockets");
  const syscalls = await RequestWatch.open("syscalls");
  return {
    sockets,
    syscalls,
    [Symbol.asyncDispose]: async () => {
      await sockets[Symbol.asyncDispose]();
      await syscalls[Symbol.asyncDispose]();
    },
  };
}

async function measure(): Promise<void> {
  await using watches = await openWatches();
  const { sockets } = watches;
  const figures: Figure[] = [];
  const notes: string[] = [];
  {
    await using nginx = await startNginx();
    const load = loadOn(nginx);
    await sleep(warmMs);
    figures.push(...(await measurePrograms("nginx", watches, notes)), ...(await measureCpu("nginx, empty reply", nginx, 1.1, emptyTurns)));
    await load.stop();
  }
  {
    await using node = await startNode();
    const load = loadOn(node);
    await sleep(warmMs);
    figures.push(...(await measureCpu("node", node, 1.03)));
    await load.stop();
  }
  {
    await using nginx = await startNginx({ workers: 2 });
    figures.push(...(await measureCounts("nginx", nginx, sockets, 100_000)));
  }
  {
    await using node = await startNode();
    figures.push(...(await measureCounts("node", node, sockets)));
  }
  {
    await using redis = await startRedisLoad(connections);
    if (redis === null) notes.push("Redis is not installed: its requests were not measured");
    else {
      await sleep(warmMs);
      figures.push(...(await measurePrograms("redis", watches, notes)));
    }
  }
  figures.push(...(await measureExchanges(sockets, notes)));
  report({
    name: "requests-kernel",
    sizes: {
      slices,
      programLoads,
      sliceMs,
      emptyTurns: emptyTurns.turns,
      emptyTurnMs: emptyTurns.sliceMs,
      timedSlices,
      loads,
      loadSeconds,
      connections,
    },
    figures,
    notes: [...notes, ...otherWatchers()],
  });
}

/** Runs until stopped. */
function loadOn({ url }: WebServer): Wrk {
  return new Wrk({ url, seconds: 300, connections });
}

/** The kernel measures programs only during this call. Other traffic on the host is in both time and count. */
async function measurePrograms(name: string, watches: Watches, notes: string[]): Promise<Figure[]> {
  const us = { sockets: [] as number[], syscalls: [] as number[] };
  for (let slice = 0; slice < timedSlices; slice++) {
    for (const kind of variants) {
      const watch = watches[kind];
      await watch.attach();
      await sleep(50);
      watch.reset();
      using _measuring = watch.hooks.object.enableStats();
      const before = watch.programTimes();
      await sleep(sliceMs);
      watch.look();
      const times = watch.programTimes().map((after, index) => sinceThen(before[index], after));
      const requests = watch.countAll();
      us[kind].push(times.reduce((sum, { runNs }) => sum + runNs, 0) / requests / 1_000);
      if (slice === timedSlices - 1)
        notes.push(`${name}, ${kind}, per request and role: ${times.flatMap((time) => described(time, requests)).join(", ")}`);
      await watch.detach();
    }
  }
  return [
    figureOf(`${name}: time in programs per request and role, at sockets`, "µs", us.sockets, { kind: "at-most", value: 0.75 }),
    figureOf(`${name}: time in programs per request and role, at system calls`, "µs", us.syscalls),
    figureOf(
      `${name}: time in programs, sockets to system calls`,
      "×",
      quartilesOf(us.sockets.map((value, slice) => value / (us.syscalls[slice] ?? Number.NaN))),
    ),
  ];
}

function sinceThen(before: ProgramTime | undefined, { name, runNs, runs }: ProgramTime): ProgramTime {
  return { name, runNs: runNs - (before?.runNs ?? 0), runs: runs - (before?.runs ?? 0) };
}

/** `socket_sent 1.0 × 320 ns`; nothing for programs that hardly ran. */
function described({ name, runNs, runs }: ProgramTime, requests: number): string[] {
  return runs < requests / 20 ? [] : [`${name} ${(runs / requests).toFixed(1)} × ${Math.round(runNs / runs)} ns`];
}

async function measureCpu(name: string, server: WebServer, target: number, turns = { turns: 1, sliceMs }): Promise<Figure[]> {
  const all: Record<(typeof variants)[number], OnOff> = { sockets: noSlices(), syscalls: noSlices() };
  for (let load = 0; load < programLoads; load++) {
    await using watches = await openWatches();
    const results = await measureOnOff({
      server,
      variants: variants.map((kind) => ({ name: kind, on: () => watches[kind].attach(), off: () => watches[kind].detach() })),
      slices: slices / programLoads,
      ...turns,
    });
    for (const kind of variants) {
      const { offUs, onUs, ratios, addedUs } = results.get(kind) ?? noSlices();
      all[kind].offUs.push(...offUs);
      all[kind].onUs.push(...onUs);
      all[kind].ratios.push(...ratios);
      all[kind].addedUs.push(...addedUs);
    }
  }
  const { sockets, syscalls } = all;
  return [
    figureOf(`${name}: CPU per request without hooks`, "µs", quartilesOf([...sockets.offUs, ...syscalls.offUs])),
    figureOf(`${name}: CPU per request, hooks at sockets`, "×", quartilesOf(sockets.ratios), { kind: "at-most", value: target }),
    figureOf(`${name}: CPU per request, hooks at system calls`, "×", quartilesOf(syscalls.ratios)),
    figureOf(`${name}: added by hooks at sockets`, "µs", quartilesOf(sockets.addedUs)),
    figureOf(`${name}: added by hooks at system calls`, "µs", quartilesOf(syscalls.addedUs)),
  ];
}

function noSlices(): OnOff {
  return { offUs: [], onUs: [], ratios: [], addedUs: [] };
}

/**
 * As many requests as two dedicated threads can make, each with its own connections. The count must be exact, because every
 * request gets its response before a thread exits. CPU is that of client and server together, so of two roles.
 */
async function measureExchanges(watch: RequestWatch, notes: string[]): Promise<Figure[]> {
  using exchange = buildHttpExchange();
  if (exchange === null) {
    notes.push("no C compiler: bare exchanges were not measured");
    return [];
  }
  const makers = 2;
  const run = async (seconds: number): Promise<{ ports: number[]; requests: number; rate: number; cpuUs: number }> => {
    const ports = await Promise.all(Array.from({ length: makers }, freePort));
    const results = await Promise.all(ports.map((port) => exchange.run({ port, seconds, connections })));
    const requests = results.reduce((sum, result) => sum + result.requests, 0);
    const rate = results.reduce((sum, result) => sum + result.requests / result.seconds, 0);
    return { ports, requests, rate, cpuUs: (results.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0) / requests) * 1e6 };
  };
  const rates: number[] = [];
  const ratesWithout: number[] = [];
  const added: number[] = [];
  let differences = 0;
  let lost = 0;
  for (let slice = 0; slice < timedSlices; slice++) {
    const without = await run(0.7);
    await watch.attach();
    watch.reset();
    const result = await run(1);
    await sleep(100);
    watch.look();
    for (const end of ["server", "client"] as const) {
      differences += Math.abs(result.ports.reduce((sum, port) => sum + watch.count(port, end), 0) - result.requests);
    }
    for (const count of ["ring-full", "connections-full", "routes-full"] as const) lost += watch.losses.get(count) ?? 0;
    await watch.detach();
    rates.push(result.rate);
    ratesWithout.push(without.rate);
    added.push((result.cpuUs - without.cpuUs) / 2);
  }
  return [
    figureOf("bare exchanges: rate", "requests/s", rates, { kind: "at-least", value: 100_000 }),
    figureOf("bare exchanges: rate without hooks", "requests/s", ratesWithout),
    figureOf("bare exchanges: counted too many or too few, both roles", "requests", single(differences), { kind: "at-most", value: 0 }),
    figureOf("bare exchanges: lost", "requests", single(lost), { kind: "at-most", value: 0 }),
    figureOf("bare exchanges: CPU added per request and role", "µs", quartilesOf(added)),
  ];
}

/** Whole runs of wrk: every request is counted, with the latency that wrk reports. */
async function measureCounts(name: string, server: WebServer, watch: RequestWatch, rateTarget?: number): Promise<Figure[]> {
  const shares = [0.5, 0.95, 0.99];
  const rates: number[] = [];
  const ratesWithout: number[] = [];
  const differences: number[] = [];
  const toMeasured = shares.map(() => [] as number[]);
  const toPrinted = shares.map(() => [] as number[]);
  let lost = 0;
  const run = (seconds: number): Promise<WrkResult> => new Wrk({ url: server.url, seconds, connections, threads: 2 }).result;
  for (let load = 0; load < loads; load++) {
    const without = await run(loadSeconds);
    ratesWithout.push(without.requests / without.seconds);
    await watch.attach();
    watch.reset();
    const result = await run(loadSeconds);
    await sleep(100);
    watch.look();
    rates.push(result.requests / result.seconds);
    for (const end of ["server", "client"] as const) differences.push(watch.count(server.port, end) - result.requests);
    for (const count of ["ring-full", "connections-full", "routes-full", "unreadable"] as const) lost += watch.losses.get(count) ?? 0;
    for (const [index, share] of shares.entries()) {
      const seenUs = watch.percentileUs(server.port, "client", share);
      const wrkUs = (latencies: LatencyCounts): number => seenUs / latencyPercentileUs(latencies, share);
      toMeasured[index]?.push(wrkUs(result.measured));
      toPrinted[index]?.push(wrkUs(result.printed));
    }
    await watch.detach();
  }
  // More than the requests in flight when wrk stops is not noise: something is counted twice or not at all.
  if (differences.some((difference) => difference < 0 || difference > connections)) {
    throw new Error(`Counts differ from wrk's by ${differences.join(", ")}, with ${connections} connections`);
  }
  return [
    figureOf(`${name}: rate`, "requests/s", rates, rateTarget === undefined ? undefined : { kind: "at-least", value: rateTarget }),
    figureOf(`${name}: rate without hooks`, "requests/s", ratesWithout),
    figureOf(`${name}: counted more than by wrk, of ${connections} in flight`, "requests", differences, {
      kind: "at-most",
      value: connections,
    }),
    figureOf(`${name}: lost`, "requests", single(lost), { kind: "at-most", value: 0 }),
    ...shares.flatMap((share, index) => [
      figureOf(`${name}: client p${share * 100} to what wrk measured`, "×", toMeasured[index] ?? []),
      figureOf(`${name}: client p${share * 100} to what wrk prints, corrected`, "×", toPrinted[index] ?? []),
    ]),
  ];
}

if (role === nodeRole) await serveNode(roleArguments);
else {
  requireBpf();
  await measure();
}
