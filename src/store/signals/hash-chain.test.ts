import { expect, test } from "vitest";
import { ChainCheck, type ChainLink, type ChainRow, chainHash, chainStart } from "./hash-chain.ts";

const start = chainStart("one");

function chainOf(count: number): ChainRow[] {
  const rows: ChainRow[] = [];
  let last: ChainLink = start;
  for (let entry = 1; entry <= count; entry++) {
    const fields = { entry, text: `entry ${entry}`, note: null };
    const row = { position: entry, entry, previousHash: last.hash, fields, hash: chainHash(last.hash, fields) };
    rows.push(row);
    last = row;
  }
  return rows;
}

function check(rows: readonly ChainRow[], pruned: readonly ChainLink[] = [], head?: ChainLink): string[] {
  const walk = new ChainCheck(start);
  for (const row of rows) walk.add(row);
  return walk.finish(pruned, head).problems.map(({ kind, entry }) => `${kind} ${entry}`);
}

const at = (rows: readonly ChainRow[], index: number): ChainRow => rows[index]!;

test("ChainCheck reports no problem in an intact chain", () => {
  const rows = chainOf(20);
  expect(check(rows, [], rows.at(-1))).toEqual([]);
  expect(check([])).toEqual([]);
});

test("chainHash() ignores the order of fields, and null fields", () => {
  expect(chainHash("p", { a: 1, b: "x", c: null })).toBe(chainHash("p", { b: "x", a: 1 }));
  expect(chainHash("p", { a: 1, b: "x" })).not.toBe(chainHash("p", { a: "1", b: "x" }));
  expect(chainHash("p", { a: "b", c: "d" })).not.toBe(chainHash("p", { a: 'b","c":"d' }));
});

test("ChainCheck detects a changed, a removed, an added and a moved entry, and a truncated end", () => {
  const rows = chainOf(10);
  const changed = { ...at(rows, 4), fields: { entry: 5, text: "something else", note: null } };
  expect(check(rows.with(4, changed))).toEqual(["changed 5"]);
  const rehashed = { ...changed, hash: chainHash(changed.previousHash, changed.fields) };
  expect(check(rows.with(4, rehashed))).toEqual(["unlinked 6"]);
  expect(check(rows.toSpliced(3, 2))).toEqual(["missing 4"]);
  expect(check(rows.toSpliced(5, 0, { ...at(rows, 4), position: 6 }))).toEqual(["moved 5", "repeated 5"]);
  expect(check([...rows.slice(0, 2), { ...at(rows, 3), position: 3 }, { ...at(rows, 2), position: 4 }, ...rows.slice(4)])).toEqual([
    "moved 3",
    "moved 3",
    "missing 3",
    "moved 4",
    "missing 4",
  ]);
  expect(check(rows.slice(0, 7), [], rows.at(-1))).toEqual(["cut 8"]);
});

test("ChainCheck distinguishes a pruned start from a removed one", () => {
  const rows = chainOf(10);
  expect(check(rows.slice(4), [at(rows, 3)], rows.at(-1))).toEqual([]);
  expect(check(rows.slice(4), [at(rows, 1)], rows.at(-1))).toEqual(["prefix-removed 1"]);
  expect(check(rows.slice(4), [], rows.at(-1))).toEqual(["prefix-removed 1"]);
  expect(check(rows.slice(4), [{ entry: 4, hash: "of another one" }])).toEqual(["unlinked 5"]);
  expect(check(rows.toSpliced(3, 2), [at(rows, 4)])).toEqual([]);
  expect(check(rows.toSpliced(3, 2), [at(rows, 3)])).toEqual(["missing 4"]);
  expect(check(rows, [], { entry: 10, hash: "" })).toEqual([]);
  expect(check(rows, [], { entry: 11, hash: "" })).toEqual(["cut 11"]);
});

test("ChainCheck detects a chain rewritten as a whole only with a hash kept elsewhere", () => {
  const rows = chainOf(5);
  let last: ChainLink = start;
  const rewritten = rows.map((row) => {
    const fields = { ...row.fields, text: row.entry === 2 ? "nothing happened" : (row.fields["text"] ?? null) };
    const next = { ...row, fields, previousHash: last.hash, hash: chainHash(last.hash, fields) };
    last = next;
    return next;
  });
  expect(check(rewritten)).toEqual([]);
  expect(check(rewritten, [], rows.at(-1))).toEqual(["rewritten 5"]);
});

test("ChainCheck lists a limited number of problems and counts the others", () => {
  const walk = new ChainCheck(start);
  for (const row of chainOf(200)) walk.add({ ...row, hash: "x" });
  const { problems, moreProblems } = walk.finish();
  expect(problems).toHaveLength(50);
  expect(moreProblems).toBeGreaterThan(300);
});

test("chainStart() differs from chain to chain", () => {
  expect(chainStart("one").hash).not.toBe(chainStart("two").hash);
  const walk = new ChainCheck(chainStart("two"));
  for (const row of chainOf(2)) walk.add(row);
  expect(walk.finish().problems.map(({ kind, entry }) => `${kind} ${entry}`)).toEqual(["unlinked 1"]);
});
