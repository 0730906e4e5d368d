/** CPU and memory of an agent on a host that serves 20,000 requests a second: agent and traffic process, with a colony. */

import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { CoralHome, until } from "./lib/coral-process.ts";
import { cpuNsOf, usageOf } from "./lib/process-usage.ts";
import { figureOf, isSmall, report, single } from "./lib/report.ts";
import { requireBpf } from "./lib/request-watch.ts";
import { quartilesOf } from "./lib/spread.ts";
import { startNginx } from "./lib/web-servers.ts";
import { Wrk } from "./lib/wrk.ts";

/** As long as a traffic window, so that each holds one report. */
const windowMs = 10_000;
/** Discovery scans every third one. */
const windows = isSmall ? 1 : 12;
const settleMs = isSmall ? 5_000 : 12_000;
/** Each connection sends a request, then pauses; together they reach about the target rate. */
const connections = 120;
/** Pause of a connection between two requests. */
const delayMs = 4;
const mebibyte = 1024 ** 2;

interface Sample {
  atMs: number;
  agentNs: number;
  trafficNs: number;
  answered: number;
}

interface SqlAnswer {
  rows: unknown[][];
}

async function measure(): Promise<void> {
  await using nginx = await startNginx();
  using home = new CoralHome();
  home.run("init", "bench");
  await using colony = await home.start(["colony", "start", "--port", "0"], () => home.run("colony", "status"));
  await using agent = await home.start(["agent", "start", "--port", "0"], () => home.run("agent", "status"));
  let trafficPid = 0;
  await until("the traffic process runs", 30_000, () => {
    trafficPid = childOf(agent.pid);
  });
  await until("requests are traced", 30_000, () => {
    const { traffic } = JSON.parse(home.run("agent", "status", "-o", "json")) as { traffic?: { state: string } };
    if (traffic?.state !== "on") throw new Error("not yet");
  });
  const load = new Wrk({ url: nginx.url, seconds: 300, connections, delayMs });
  const take = async (): Promise<Sample> => ({
    answered: (await nginx.usage()).answered,
    atMs: performance.now(),
    agentNs: cpuNsOf(agent.pid),
    trafficNs: cpuNsOf(trafficPid),
  });
  await sleep(settleMs);
  const samples = [await take()];
  const memory: Record<"agent" | "traffic" | "together", number[]> = { agent: [], traffic: [], together: [] };
  for (let window = 0; window < windows; window++) {
    await sleep(windowMs);
    samples.push(await take());
    memory.agent.push(usageOf(agent.pid).rssBytes / mebibyte);
    memory.traffic.push(usageOf(trafficPid).rssBytes / mebibyte);
    memory.together.push((proportionalBytes(agent.pid) + proportionalBytes(trafficPid)) / mebibyte);
  }
  const { requests } = await load.stop();
  agent.check();
  colony.check();
  const counted = await countedBy(home, nginx.port, requests);
  const between = (of: (before: Sample, after: Sample) => number): number[] =>
    samples.slice(1).map((after, index) => of(samples[index] ?? after, after));
  const share = (of: (sample: Sample) => number): number[] =>
    between((before, after) => ((of(after) - of(before)) / 1e6 / (after.atMs - before.atMs)) * 100);
  report({
    name: "requests-agent",
    sizes: { windows, windowSeconds: windowMs / 1_000, connections, delayMs },
    figures: [
      figureOf(
        "rate",
        "requests/s",
        between((before, after) => ((after.answered - before.answered) / (after.atMs - before.atMs)) * 1_000),
      ),
      figureOf("agent: CPU of one core", "%", quartilesOf(share(({ agentNs }) => agentNs)), { kind: "at-most", value: 1 }),
      figureOf("traffic process: CPU of one core", "%", quartilesOf(share(({ trafficNs }) => trafficNs))),
      figureOf("together: CPU of one core", "%", quartilesOf(share(({ agentNs, trafficNs }) => agentNs + trafficNs)), {
        kind: "at-most",
        value: 1,
      }),
      figureOf("agent: RSS", "MiB", memory.agent, { kind: "at-most", value: 120 }),
      figureOf("traffic process: RSS", "MiB", memory.traffic),
      figureOf("together: PSS", "MiB", memory.together),
      figureOf("counted more than by wrk", "requests", single(counted - requests), { kind: "at-most", value: connections }),
    ],
  });
}

/** The last window arrives within a window and a pull. */
async function countedBy(home: CoralHome, port: number, requests: number): Promise<number> {
  const statement = `SELECT coalesce(sum(requests), 0)::DOUBLE FROM red WHERE server_port = ${port} AND role = 'client'`;
  let counted = 0;
  await until("all requests are stored", 40_000, () => {
    const { rows } = JSON.parse(home.run("query", "sql", statement, "-o", "json")) as SqlAnswer;
    counted = Number(rows[0]?.[0]);
    if (counted < requests) throw new Error(`${counted} of ${requests} so far`);
  });
  return counted;
}

function childOf(parent: number): number {
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const isChild = readFileSync(`/proc/${entry}/stat`, "utf8").replace(/^.*\)/s, "").trim().split(" ")[1] === String(parent);
      if (isChild && readFileSync(`/proc/${entry}/cmdline`, "utf8").includes("traffic-process")) return Number(entry);
    } catch {
      // It has exited meanwhile.
    }
  }
  throw new Error("The agent has no traffic process");
}

/** Proportional set size: shared pages are divided among their processes. */
function proportionalBytes(pid: number): number {
  return Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1] ?? Number.NaN) * 1024;
}

requireBpf();
await measure();
