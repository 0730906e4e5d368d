import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, createRouterTransport } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import { openAgentStore } from "../../store/agent/index.ts";
import { openEngine } from "../../store/engine/index.ts";
import { host, hostMount, hostProcess } from "../../store/signals/index.ts";
import { addAgentService } from "./agent-service.ts";

const process1 = { pid: 1, start_ticks: 1, name: "init", exe: null, user_id: 0, cgroup: null };
const figures = { state: "S", cpu_cores: 0, rss_bytes: 0, threads: 1, open_files: null, major_faults_per_s: 0 };
const row = { at: 1_000, mono_ms: 1, ...process1, ...figures };

test("Pull reports why nothing can be stored", async () => {
  const store = { epoch: "e", heads: () => new Map(), losses: () => [], readAfter: () => Promise.reject(new Error("nothing asked")) };
  const options = { agentId: "a", sessionId: "s", store, storeProblem: () => "no space left", clock: systemClock };
  const client = createClient(
    AgentService,
    createRouterTransport((router) => addAgentService(router, options)),
  );
  expect((await client.pull({ cursors: [], maxBytes: 1_000n })).storeProblem).toBe("no space left");
});

test("Pull returns every signal at first, and later only those with new rows", async () => {
  const directory = mkdtempSync(join(tmpdir(), "coral-pull-"));
  try {
    const engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 64 * 1024 ** 2, threads: 1, log: silentLogger });
    await using _engine = engine;
    const signals = [host, hostMount, hostProcess];
    const file = join(directory, "agent.duckdb");
    await using store = await openAgentStore(engine, { file, signals, maxBytes: 1024 ** 2, clock: systemClock, log: silentLogger });
    const transport = createRouterTransport((router) =>
      addAgentService(router, { agentId: "a", sessionId: "s", store, clock: systemClock }),
    );
    const client = createClient(AgentService, transport);
    const pull = async (afterSeq: bigint): Promise<string[]> => {
      const cursors = [
        { signal: "host_mount", afterSeq: 0n },
        { signal: "host_process", afterSeq },
      ];
      const { slices } = await client.pull({ cursors, maxBytes: 1_000_000n });
      return slices.map(({ signal, oldestSeq, nextSeq, batch }) => `${signal} ${oldestSeq} to ${nextSeq}, ${batch?.rows ?? 0} rows`);
    };
    await store.append(hostProcess, [row, row]);
    expect(await pull(0n)).toEqual(["host_mount 1 to 1, 0 rows", "host_process 1 to 3, 2 rows"]);
    expect(await pull(2n)).toEqual(["host_mount 1 to 1, 0 rows"]);
    await store.append(hostProcess, [row]);
    expect(await pull(2n)).toEqual(["host_mount 1 to 1, 0 rows", "host_process 1 to 4, 1 rows"]);
    // A cursor beyond the head belongs to another store.
    expect(await pull(9n)).toEqual(["host_mount 1 to 1, 0 rows", "host_process 1 to 4, 0 rows"]);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
