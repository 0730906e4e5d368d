/** Acknowledged OTLP data is stored exactly once, even if the agent is killed or its disk is full. */

import { beforeEach, describe, expect, it } from "vitest";
import { agentPaths } from "../../src/config/index.ts";
import { type AgentDaemon, startAgent, startColony } from "../support/daemon.ts";
import { expectSendings, OtlpLoad, type Sending } from "../support/otlp-load.ts";
import { coralJson } from "../support/run-coral.ts";
import { SmallDisk, smallDiskSkipReason } from "../support/small-disk.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

const colonyConfig = "pull:\n  interval: 500ms\n";
const agentConfig = "otlp:\n  grpc:\n    enabled: false\n  http:\n    listen: 127.0.0.1:0\n";
const spansPerRequest = 200;

async function otlpAddress(agent: AgentDaemon): Promise<string> {
  const { otlp } = await coralJson<{ otlp: { http: string } }>(["agent", "status"], { home: agent.home });
  return otlp.http;
}

const count = (notes: readonly Sending[], outcome: Sending["outcome"]): number => notes.filter((one) => one.outcome === outcome).length;

describe("OTLP while the agent is killed", () => {
  it("stores every acknowledged span once across eight kills", async () => {
    await using home = makeTestHome();
    await using colony = await startColony({ home: home.path, config: colonyConfig });
    const notes: Sending[] = [];
    for (let round = 0; round < 8; round++) {
      const agent = await startAgent({ home: home.path, config: agentConfig });
      await using load = new OtlpLoad({ address: await otlpAddress(agent), spansPerRequest, connections: 4, notes });
      const before = count(notes, "acknowledged");
      // Enough for several segments, so that kills hit every stage of writing them.
      await waitFor("acknowledged requests", () => count(notes, "acknowledged") > before + 60 + round * 17, {
        details: () => agent.lastLines(),
      });
      await agent.kill("SIGKILL");
      await load.stop();
    }
    await using agent = await startAgent({ home: home.path, config: agentConfig });
    await agent.waitUntilConnected();
    await expectSendings(colony, notes, spansPerRequest);
    expect(count(notes, "acknowledged")).toBeGreaterThan(8 * 60);
    expect(count(notes, "refused")).toBe(0);
    // Other signals may lose rows if the store reaches its memory limit on a busy machine; the losses list them.
    expect((await agent.status()).losses.filter(({ signal }) => signal === "span")).toEqual([]);
  });
});

describe("OTLP on a full disk", () => {
  beforeEach((context) => {
    const reason = smallDiskSkipReason();
    context.skip(reason !== undefined, reason);
  });

  it("is refused with Retry-After, loses nothing acknowledged, and is accepted again when there is space", async () => {
    await using colonyHome = makeTestHome();
    await using agentHome = makeTestHome();
    await using disk = SmallDisk.mount(agentPaths(agentHome.path).dataDirectory, 48);
    await using colony = await startColony({ home: colonyHome.path, config: colonyConfig });
    const token = await colony.createJoinToken();
    const notes: Sending[] = [];
    const start = { home: agentHome.path, config: agentConfig, token };
    const load = async (agent: AgentDaemon) =>
      new OtlpLoad({ address: await otlpAddress(agent), spansPerRequest, connections: 2, pauseMs: 20, notes });
    const acknowledgedAfter = async (agent: AgentDaemon): Promise<void> => {
      const before = count(notes, "acknowledged");
      await waitFor("acknowledged requests", () => count(notes, "acknowledged") > before + 30, { details: () => agent.lastLines() });
    };
    const refusedAfter = async (agent: AgentDaemon): Promise<void> => {
      const before = count(notes, "refused");
      await waitFor("refusals", () => count(notes, "refused") > before + 10, { details: () => agent.lastLines() });
    };
    const first = await startAgent(start);
    await using firstLoad = await load(first);
    await acknowledgedAfter(first);
    disk.fill();
    await refusedAfter(first);
    disk.free();
    await acknowledgedAfter(first);
    // Full again, then killed: acknowledged spans must not depend on the missing space.
    disk.fill();
    await refusedAfter(first);
    await first.kill("SIGKILL");
    await firstLoad.stop();
    disk.free();
    await using second = await startAgent(start);
    await using secondLoad = await load(second);
    await acknowledgedAfter(second);
    await secondLoad.stop();
    await expectSendings(colony, notes, spansPerRequest);
    const refused = notes.filter(({ outcome }) => outcome === "refused");
    expect([...new Set(refused.map(({ status }) => status))]).toEqual([503]);
    expect(refused.every(({ retryAfter }) => Number(retryAfter) >= 1)).toBe(true);
    expect(first.output).toContain("no space left");
  });
});

describe("OTLP during many concurrent queries", () => {
  it("is accepted without a refusal and stored once, and every query gets a result", async () => {
    await using home = makeTestHome();
    await using colony = await startColony({ home: home.path, config: colonyConfig });
    await using agent = await startAgent({ home: home.path, config: agentConfig });
    await agent.waitUntilConnected();
    const notes: Sending[] = [];
    await using load = new OtlpLoad({ address: await otlpAddress(agent), spansPerRequest, connections: 4, notes });
    let isOver = false;
    const questions = [
      () => colony.sql("SELECT service, count(*) AS n, quantile_cont(duration_ns, 0.95) AS p95 FROM span GROUP BY 1 ORDER BY 2 DESC"),
      () => colony.sql("SELECT count(*) AS n FROM span WHERE attributes LIKE '%0000ff%'"),
      () => colony.tool("coral_query_traces", { service: "load-1", since: "5m" }),
      () => colony.sql("SELECT http_route, count(*) AS n FROM span WHERE service = 'load-2' GROUP BY 1"),
    ];
    const answered = questions.map(() => 0);
    const asking = questions.flatMap((ask, index) =>
      [1, 2].map(async () => {
        while (!isOver) {
          await ask();
          answered[index] = (answered[index] ?? 0) + 1;
        }
      }),
    );
    try {
      await waitFor("acknowledged requests", () => count(notes, "acknowledged") > 600 && answered.every((times) => times > 5), {
        timeoutMs: 180_000,
        details: () => `${count(notes, "acknowledged")} acknowledged, answers ${answered.join(" ")}\n${agent.lastLines()}`,
      });
    } finally {
      isOver = true;
      await load.stop();
    }
    await Promise.all(asking);
    await expectSendings(colony, notes, spansPerRequest);
    expect(notes.filter(({ outcome }) => outcome !== "acknowledged")).toEqual([]);
  });
});
