import { expect, it } from "vitest";
import { CoralError } from "../../base/errors.ts";
import type { PullOutcome } from "../../store/colony/index.ts";
import type { AgentPull } from "../../store/tables/index.ts";
import { Ingest } from "./ingest.ts";

const pullOf = (agentId: string): AgentPull => ({ agentId, epoch: "e", slices: [], losses: [] });
const pullOfRows = (agentId: string, rows: number): AgentPull => ({
  ...pullOf(agentId),
  slices: [
    {
      signal: "s",
      oldestSeq: 1,
      nextSeq: rows + 1,
      batch: { firstSeq: 1, lastSeq: rows, rows, columns: [], data: new Uint8Array() },
    },
  ],
});
/** Longer than the test runs: a test that waits for it fails. */
const neverMs = 60_000;
const stored = (pull: AgentPull): PullOutcome => ({ agentId: pull.agentId, storedRows: 1, lostRows: 0 });

/** A store whose transactions end when the test resolves them. */
function heldStore() {
  const groups: string[][] = [];
  const release: (() => void)[] = [];
  return {
    groups,
    release,
    applyPulls: async (pulls: readonly AgentPull[]): Promise<PullOutcome[]> => {
      groups.push(pulls.map((pull) => pull.agentId));
      await new Promise<void>((resolve) => release.push(resolve));
      return pulls.map(stored);
    },
  };
}

it("submit() groups pulls that arrive during a transaction into the next one", async () => {
  const store = heldStore();
  const ingest = new Ingest(store, { maxPerTransaction: 3, gatherMs: 0 });
  const first = ingest.submit(pullOf("a"));
  const rest = ["b", "c", "d", "e"].map((name) => ingest.submit(pullOf(name)));
  store.release.shift()?.();
  await first;
  store.release.shift()?.();
  await Promise.all(rest.slice(0, 3));
  store.release.shift()?.();
  await Promise.all(rest);
  expect(store.groups).toEqual([["a"], ["b", "c", "d"], ["e"]]);
});

/** A store that commits at once. */
function quickStore() {
  const groups: string[][] = [];
  return {
    groups,
    applyPulls: (pulls: readonly AgentPull[]): Promise<PullOutcome[]> => {
      groups.push(pulls.map((pull) => pull.agentId));
      return Promise.resolve(pulls.map(stored));
    },
  };
}

it("submit() stores the first pull at once and groups the small ones after it", async () => {
  const store = quickStore();
  const ingest = new Ingest(store, { gatherMs: 20 });
  await ingest.submit(pullOf("a"));
  const rest = [ingest.submit(pullOf("b"))];
  await new Promise((resolve) => setImmediate(resolve));
  rest.push(ingest.submit(pullOf("c")));
  await Promise.all(rest);
  expect(store.groups).toEqual([["a"], ["b", "c"]]);
});

it("submit() does not wait when many rows or pulls are queued", async () => {
  const store = quickStore();
  const ingest = new Ingest(store, { gatherMs: neverMs });
  await ingest.submit(pullOf("a"));
  await Promise.all([ingest.submit(pullOf("b")), ingest.submit(pullOfRows("c", 2_000))]);
  await Promise.all(Array.from({ length: 16 }, (_, index) => ingest.submit(pullOf(`d${index}`))));
  expect(store.groups.map((group) => group.length)).toEqual([1, 2, 16]);
});

it("submit() rejects every pull of a failed transaction and stores later ones", async () => {
  let isFull = true;
  const ingest = new Ingest({
    applyPulls: (pulls) =>
      isFull ? Promise.reject(new CoralError({ code: "unavailable", message: "no space left" })) : Promise.resolve(pulls.map(stored)),
  });
  const results = await Promise.allSettled([ingest.submit(pullOf("a")), ingest.submit(pullOf("b"))]);
  expect(results.map((result) => result.status)).toEqual(["rejected", "rejected"]);
  isFull = false;
  await expect(ingest.submit(pullOf("a"))).resolves.toMatchObject({ storedRows: 1 });
});

it("submit() rejects only the agent whose answer was malformed", async () => {
  const error = new CoralError({ code: "invalid", message: "short record" });
  const ingest = new Ingest({
    applyPulls: (pulls) =>
      Promise.resolve(pulls.map((pull) => (pull.agentId === "bad" ? { ...stored(pull), storedRows: 0, error } : stored(pull)))),
  });
  const [good, bad] = await Promise.allSettled([ingest.submit(pullOf("good")), ingest.submit(pullOf("bad"))]);
  expect(good?.status).toBe("fulfilled");
  expect(bad).toEqual({ status: "rejected", reason: error });
});

it("reports pulls after their commit", async () => {
  const store = heldStore();
  const reported: string[][] = [];
  const ingest = new Ingest(store, { gatherMs: 0, onStored: (pulls) => reported.push(pulls.map(({ agentId }) => agentId)) });
  const submitted = ingest.submit(pullOf("a"));
  await Promise.resolve();
  expect(reported).toEqual([]);
  store.release[0]?.();
  await submitted;
  await Promise.resolve();
  expect(reported).toEqual([["a"]]);
});
