import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import type { PullRequest } from "../../src/proto/coral/agent/v1/agent_pb.ts";
import { InProcessColony, type PullAnswer, ScriptedAgent } from "../support/in-process-colony.ts";
import { processBatch, validPullReply, type WireBatch, wireBatch } from "../support/pull-replies.ts";
import { seededBytes, seededRandom } from "../support/seeded-random.ts";
import { waitFor } from "../support/wait-for.ts";

const max = 2n ** 64n - 1n;
const random = seededRandom(33);
let counter = 0;

/** Three rows of `host_process`, valid apart from the given changes. */
function threeRows(head: { oldestSeq?: bigint; nextSeq?: bigint } = {}, batch: Partial<WireBatch> = {}) {
  return { signal: "host_process", oldestSeq: 1n, nextSeq: 4n, ...head, batch: { ...wireBatch(processBatch(1, 3)), ...batch } };
}

function answer(...changes: Parameters<typeof threeRows>): PullAnswer {
  return { epoch: "invalid", slices: [threeRows(...changes)] };
}

function withColumnType(type: string): PullAnswer {
  const { columns } = wireBatch(processBatch(1, 3));
  return answer({}, { columns: columns.map((column) => (column.name === "threads" ? { ...column, type } : column)) });
}

type Lie = (request: PullRequest) => PullAnswer | Promise<PullAnswer>;

/** Pull responses of which nothing may be stored. */
const invalidReplies: Record<string, Lie> = {
  "random bytes as data": () => answer({}, { data: seededBytes(random, 4_000) }),
  "truncated data": () => answer({}, { data: wireBatch(processBatch(1, 3)).data.subarray(0, 40) }),
  "data with extra bytes": () => answer({}, { data: Buffer.concat([wireBatch(processBatch(1, 3)).data, Buffer.alloc(9)]) }),
  "no data": () => answer({}, { data: new Uint8Array() }),
  "no columns": () => answer({}, { columns: [] }),
  "more rows than data": () => answer({ nextSeq: 4_000_000_001n }, { rows: 4_000_000_000, lastSeq: 4_000_000_000n }),
  "rows that do not fit the sequences": () => answer({}, { lastSeq: 2n }),
  "sequences that go back": () => answer({}, { firstSeq: 3n, lastSeq: 1n }),
  "sequence 0": () => answer({}, { firstSeq: 0n, lastSeq: 2n }),
  "sequences above 53 bits": () => answer({ nextSeq: max }, { firstSeq: max - 3n, lastSeq: max - 1n }),
  "rows beyond the next sequence": () => answer({ nextSeq: 2n }),
  "oldest after next": () => answer({ oldestSeq: 9n }),
  "oldest 0": () => answer({ oldestSeq: 0n, nextSeq: 0n }),
  "a column of another type": () => withColumnType("text"),
  "a column of an unknown type": () => withColumnType("tensor"),
  "another epoch than at registration, a new one each time": () => ({ ...answer(), epoch: `epoch-${counter++}` }),
  "no epoch": () => ({ ...answer(), epoch: "" }),
  "ten thousand kinds of loss": () => ({
    epoch: "invalid",
    slices: [threeRows()],
    losses: Array.from({ length: 10_000 }, (_, index) => ({ signal: `s${index}`, reason: "x", rows: BigInt(counter++) })),
  }),
  "a loss beyond 53 bits": () => ({
    epoch: "invalid",
    slices: [threeRows()],
    losses: [{ signal: "host_process", reason: "x", rows: max }],
  }),
  "40 MiB of data": () => answer({}, { data: Buffer.alloc(40 * 1024 * 1024) }),
  "signals that do not exist": () => ({
    epoch: "invalid",
    slices: Array.from({ length: 5_000 }, (_, index) => ({ signal: `no-${index}`, oldestSeq: 2n, nextSeq: 9n })),
    oldestAgeMs: max,
  }),
  "an error": () => Promise.reject(new ConnectError("refused", Code.Internal)),
  "an error with a long text": () => Promise.reject(new ConnectError("no ".repeat(100_000), Code.InvalidArgument)),
  "no response": () => new Promise<PullAnswer>(() => undefined),
};

describe("an agent with invalid responses", () => {
  it("affects only itself: none of its rows are stored, other agents' rows arrive, memory stays bounded", async () => {
    await using colony = await InProcessColony.start({
      configure: (config) => ({ ...config, pull: { ...config.pull, intervalMs: 50, timeoutMs: 1_000, concurrency: 4 } }),
    });
    await using valid = await ScriptedAgent.connect(colony, {
      identity: await colony.join("valid"),
      epoch: "true",
      pull: (request) => validPullReply(request, "true"),
    });
    await waitFor("valid rows", () => valid.pulls > 3);
    const rssBefore = process.memoryUsage.rss();
    const agents = await Promise.all(
      Object.entries(invalidReplies).map(async ([name, pull], index) => {
        const invalid = await ScriptedAgent.connect(colony, { identity: await colony.join(`invalid-${index}`), epoch: "invalid", pull });
        return { name, invalid };
      }),
    );
    const before = valid.pulls;
    for (const { name, invalid } of agents) {
      const wanted = name === "no response" ? 1 : 2;
      await waitFor(`"${name}" to be pulled`, () => invalid.pulls >= wanted);
    }
    await waitFor("valid pulls", () => valid.pulls >= before + 5);
    await Promise.all(agents.map(({ invalid }) => invalid.tunnel.close("the test is over")));
    const [stored, ...others] = await colony.sql(
      "SELECT agent_id, min(epoch) AS epoch, count(*) AS n, count(DISTINCT seq) AS seqs, max(seq) AS last FROM host_process GROUP BY agent_id",
    );
    expect(others).toEqual([]);
    expect(stored).toMatchObject({ agent_id: "valid", epoch: "true", seqs: stored!["n"], last: stored!["n"] });
    const status = await colony.tool<{ agents: { total: number }; warnings: { message: string }[] }>("coral_get_status");
    expect(status.agents.total).toBe(Object.keys(invalidReplies).length + 1);
    expect(Math.max(...colony.logs.map(({ message, fields }) => message.length + JSON.stringify(fields).length))).toBeLessThan(5_000);
    expect(process.memoryUsage.rss() - rssBefore).toBeLessThan(300 * 1024 * 1024);
    // Contact times are still stored: no value of a bad agent breaks the SQL statement for all agents.
    expect(colony.logs.filter(({ level }) => level === "error")).toEqual([]);
  });
});
