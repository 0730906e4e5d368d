/** A real service is replaced by a slower build under load. The deployment is detected, compared and reported without any label or version. */

import { execFile, spawn } from "node:child_process";
import { mkdirSync, renameSync } from "node:fs";
import { Agent, request } from "node:http";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { AgentStatus, Deployment, DeploymentList, EventList, SummaryResult } from "../../src/tools/index.ts";
import { type AgentDaemon, type ColonyDaemon, DaemonProcess, startAgent, startColony } from "../support/daemon.ts";
import { hasProgram } from "../support/has-program.ts";
import { freePort } from "../support/held-port.ts";
import { runCoral } from "../support/run-coral.ts";
import { makeTestHome, type TestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";
import { fastAgentConfig, fastColonyConfig } from "../support/watched-host.ts";

const run = promisify(execFile);
const skipReason = process.getuid?.() !== 0 ? "needs root" : !hasProgram("cc") ? "needs a C compiler" : undefined;
const service = "pricing";
/** How long the two builds sleep in each request. */
const [fastUs, slowUs] = [2_000, 60_000];
const comparedSeconds = 25;
let home: TestHome;
let colony: ColonyDaemon;
let agent: AgentDaemon;
let server: DaemonProcess | undefined;
let port: number;
let directory: string;

/** Installs a build as a package manager does: the new file replaces the old one by rename. */
async function install(name: string, delayUs: number, failEach = 0): Promise<void> {
  const built = join(directory, name);
  const source = resolve(import.meta.dirname, "../support/slow-server.c");
  await run("cc", ["-O2", "-pthread", `-DDELAY_US=${delayUs}`, `-DFAIL_EACH=${failEach}`, "-o", built, source]);
  renameSync(built, join(directory, service));
}

async function restart(): Promise<void> {
  await server?.kill("SIGKILL");
  server = new DaemonProcess(service, spawn(join(directory, service), [String(port)]));
  await waitFor("the service to answer", async () => (await ask().catch(() => 0)) > 0);
}

const kept = new Agent({ keepAlive: true, maxSockets: 8 });

function ask(): Promise<number> {
  return new Promise((done, failed) => {
    const outgoing = request({ host: "127.0.0.1", port, path: "/prices/42", agent: kept }, (reply) => {
      reply.resume();
      reply.once("end", () => done(reply.statusCode ?? 0));
    });
    outgoing.once("error", failed).end();
  });
}

/** About 150 requests a second until stopped. Failures during the restart are ignored. */
function load(): { stop: () => Promise<void> } {
  let isOn = true;
  const lanes = Array.from({ length: 6 }, async () => {
    while (isOn) {
      await ask().catch(() => 0);
      await new Promise((done) => setTimeout(done, 30));
    }
  });
  return {
    stop: async () => {
      isOn = false;
      await Promise.all(lanes);
    },
  };
}

const deployments = async (): Promise<Deployment[]> =>
  (await colony.tool<DeploymentList>("coral_query_deployments", { service, since: "1h" }).catch(() => ({ deployments: [] }))).deployments;
const changeOf = (report: Deployment["report"], metric: string) => report?.changes.find((change) => change.metric === metric);

/** Seconds in which the service served requests, as the colony knows them. */
const servedSeconds = async (): Promise<number> => {
  const [row] = await colony.sql(
    `SELECT count(DISTINCT epoch("time")::BIGINT) AS n FROM red WHERE role = 'server' AND route = '/prices/{id}'`,
  );
  return Number(row?.["n"] ?? 0);
};

// New daemons with each test: a deployment of an earlier test would count too.
beforeEach(async (context) => {
  context.skip(skipReason !== undefined, skipReason);
  home = makeTestHome();
  directory = join(home.path, "bin");
  mkdirSync(directory);
  port = await freePort();
  colony = await startColony({ home: home.path, config: `${fastColonyConfig}\ndeployments:\n  window: 1m\n` });
  agent = await startAgent({ home: home.path, config: `${fastAgentConfig}\ntraffic:\n  interval: 1s\n  cpu_budget: 50%\n`, traffic: true });
  await agent.waitUntilConnected();
  await install("one", fastUs);
  await restart();
  await waitFor("hooks to be attached", async () => ((await agent.status()) as unknown as AgentStatus).traffic?.state === "on", {
    details: () => agent.lastLines(),
  });
});

afterEach(async () => {
  kept.destroy();
  for (const daemon of [server, agent, colony]) await daemon?.stop();
  await home?.[Symbol.asyncDispose]();
});

describe("a service that is replaced by a slower build", () => {
  it("is detected, compared with the time before, and reported by events, deployments and summary", async () => {
    const traffic = load();
    try {
      // The comparison needs at least six blocks of a few seconds before the deployment.
      await waitFor("requests to compare with", async () => (await servedSeconds()) >= comparedSeconds, {
        timeoutMs: 180_000,
        intervalMs: 500,
      });
      expect(await deployments()).toEqual([]);
      // So much slower, and with so many errors, that a busy machine cannot hide it.
      await install("two", slowUs, 4);
      await restart();
      const [noticed] = await waitFor("the deployment", async () => (await deployments()).length > 0 && deployments());
      expect(noticed).toMatchObject({ service, foundBy: ["build"], version: null });
      expect(noticed?.build).toMatch(/^[0-9a-f]{8,}$/);
      expect(noticed?.previousBuild).not.toBe(noticed?.build);
      let seen: Deployment[] = [];
      // A deployment is compared four times. The first comparisons may see too few requests.
      const judged = await waitFor(
        "the verdict",
        async () => {
          seen = await deployments();
          return seen.find(
            ({ verdict, report }) => verdict === "regression" && ["p50", "errors"].every((metric) => changeOf(report, metric)),
          );
        },
        { timeoutMs: 180_000, intervalMs: 500, details: () => JSON.stringify(seen, undefined, 1) },
      );
      // Only the median: on a busy machine, the slowest requests are slow before the deployment, too.
      const p50 = changeOf(judged.report, "p50");
      expect(p50).toMatchObject({ outcome: "worse", subject: "GET /prices/{id}" });
      // The server sleeps this long; the rest is overhead.
      // Quantiles of the histogram are within 5 %.
      expect(p50!.before).toBeGreaterThan(0.9 * fastUs);
      expect(p50!.after).toBeGreaterThan(0.9 * slowUs);
      expect(p50!.pValue).toBeLessThan(0.0025);
      expect(changeOf(judged.report, "errors")).toMatchObject({ outcome: "worse", before: 0 });
      let events: EventList["events"] = [];
      // The agent reports the restart with its next scan, which may come after the verdict.
      await waitFor(
        "the events of it",
        async () => {
          ({ events } = await colony.tool<EventList>("coral_list_events", { service }));
          return ["deployment", "deployment-regression", "service-restarted"].every((kind) => events.some((one) => one.kind === kind));
        },
        { details: () => events.map(({ kind, message }) => `${kind}: ${message}`).join("\n") },
      );
      expect(events.find(({ kind }) => kind === "deployment-regression")?.severity).toBe("warning");
      let rules: string[] = [];
      await waitFor(
        "the summary to show it",
        async () => {
          const { services } = await colony.tool<SummaryResult>("coral_query_summary", { service, since: "1m" });
          rules = services[0]?.findings.map(({ rule }) => rule) ?? [];
          return services[0]?.health !== "ok" && ["errors", "deployment-regression"].every((rule) => rules.includes(rule));
        },
        { timeoutMs: 120_000, intervalMs: 500, details: () => rules.join(" ") },
      );
      const page = await runCoral(["query", "summary", service, "--since", "1m"], { home: home.path });
      expect(page.stdout).toContain("worse since build");
      const list = await runCoral(["query", "deployments"], { home: home.path });
      expect(list.stdout).toContain("regression");
    } finally {
      await traffic.stop();
    }
  }, 300_000);
});
