import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { createPacer } from "../files/pacer.ts";
import { createHostTree, type HostTree, type TreeEntry } from "../host-tree.fixture.ts";
import type { ProcessEntry } from "../processes/process-table.ts";
import { createSocketOwners, type SocketOwners } from "./socket-owners.ts";

const processOf = (pid: number, startTicks = 1): ProcessEntry => ({
  pid,
  startTicks,
  execMark: 1,
  parentPid: 1,
  name: "app",
  networkNamespace: 1,
  sinceScan: 1,
});
/** Numbers are inodes of sockets; strings are targets of other descriptors. */
const descriptors = (pid: number, held: Record<number, number | string>): Record<string, TreeEntry> =>
  Object.fromEntries(
    Object.entries(held).map(([fd, what]) => [`proc/${pid}/fd/${fd}`, { link: typeof what === "number" ? `socket:[${what}]` : what }]),
  );
const filler = (first: number, count: number): Record<number, string> =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [first + index, "/dev/null"]));

async function find(owners: SocketOwners, wanted: number[], pids: number[], { alive = wanted, rest = true } = {}): Promise<number[]> {
  const left = new Set(wanted);
  const living = new Set(alive);
  owners.beginScan();
  const search = {
    wanted: left,
    processes: pids.map((pid) => processOf(pid)),
    isSweep: true,
    isAlive: (inode: number) => living.has(inode),
    isWorthTheRest: () => rest,
  };
  await owners.find(search, createPacer());
  return [...left];
}

function open(held: Record<number, Record<number, number | string>>, limits = {}): { tree: HostTree; owners: SocketOwners } {
  const tree = createHostTree(Object.assign({}, ...Object.entries(held).map(([pid, what]) => descriptors(Number(pid), what))));
  return { tree, owners: createSocketOwners(createHostRoot(tree.root), limits) };
}

describe("createSocketOwners()", () => {
  it("finds the processes of sockets, and stops when all are found", async () => {
    const { tree, owners } = open({ 1: { 0: "/dev/null", 3: 11, 4: "pipe:[9]", 5: 12 }, 2: { 3: 13 }, 3: { 3: 14, 4: 15 } });
    using _ = tree;
    expect(await find(owners, [11, 13], [1, 2, 3])).toEqual([]);
    expect([owners.of(11), owners.of(13), owners.of(14)]).toEqual([[1], [2], []]);
    expect(owners.descriptorsRead).toBeLessThan(6);
    expect(await find(owners, [99], [1, 2, 3])).toEqual([99]);
  });

  it("returns all processes of a socket on request", async () => {
    const { tree, owners } = open({ 7: { 3: 11 }, 5: { 3: 11, 9: 11 }, 6: { 3: 11 } });
    using _ = tree;
    await find(owners, [11, 99], [7, 5, 6]);
    expect(owners.of(11)).toEqual([5, 6, 7]);
    expect([...owners.socketsOf(5)]).toEqual([
      [3, 11],
      [9, 11],
    ]);
  });

  it("reads the remaining descriptors of a process only when worthwhile", async () => {
    const { tree, owners } = open({ 1: { ...filler(3, 60), 99: 11 } });
    using _ = tree;
    expect(await find(owners, [11], [1], { rest: false })).toEqual([11]);
    expect(owners.descriptorsRead).toBeLessThan(40);
    expect(await find(owners, [11], [1])).toEqual([]);
    expect(owners.of(11)).toEqual([1]);
  });

  it("finds sockets among the first three descriptors, as under inetd", async () => {
    const { tree, owners } = open({ 1: { 0: 11, 1: 11, 2: 11 } });
    using _ = tree;
    expect(await find(owners, [11], [1])).toEqual([]);
  });

  it("does not re-read descriptors of known sockets, and notices a replaced one", async () => {
    const { tree, owners } = open({ 1: { 3: 11, 4: 12 } });
    using _ = tree;
    await find(owners, [11, 12], [1]);
    tree.write(descriptors(1, { 5: 13 }));
    await find(owners, [13], [1], { alive: [11, 12, 13] });
    expect([owners.of(13), owners.descriptorsRead]).toEqual([[1], 1]);
    rmSync(join(tree.root, "proc/1/fd/4"));
    tree.write(descriptors(1, { 4: 14 }));
    owners.forgetSocket(12);
    expect(await find(owners, [14], [1], { alive: [11, 13, 14] })).toEqual([]);
    expect([owners.of(12), owners.of(14)]).toEqual([[], [1]]);
  });

  it("forgets a process, and does not confuse it with another under its pid", async () => {
    const { tree, owners } = open({ 1: { 3: 11 }, 2: { 3: 11 } });
    using _ = tree;
    await find(owners, [11, 99], [1, 2]);
    owners.forgetProcess(1);
    expect(owners.of(11)).toEqual([2]);
    expect(owners.probe(processOf(2, 77), 3, 11)).toBe(true);
    owners.forgetProcess(2);
    expect(owners.of(11)).toEqual([]);
  });

  it("checks only the inherited descriptor of a child", async () => {
    const { tree, owners } = open({ 1: { 3: 11 }, 2: { 3: 11 }, 3: { 3: 12 }, 4: {} });
    using _ = tree;
    await find(owners, [11], [1]);
    expect([2, 3, 4].map((pid) => owners.probe(processOf(pid), 3, 11))).toEqual([true, false, false]);
    expect(owners.of(11)).toEqual([1, 2]);
  });

  it("explores a little at a time", async () => {
    const { tree, owners } = open({ 1: { ...filler(3, 50), 60: 11 }, 2: { ...filler(3, 50), 60: 12 } });
    using _ = tree;
    owners.beginScan();
    const alive = (): boolean => true;
    owners.explore([processOf(1), processOf(2)], alive, 40);
    expect([owners.of(11), owners.of(12)]).toEqual([[1], []]);
    owners.explore([processOf(1), processOf(2)], alive, 40);
    expect(owners.of(12)).toEqual([2]);
  });

  it("bounds the descriptors read per scan, and counts the rest", async () => {
    const { tree, owners } = open({ 1: { ...filler(3, 30), 40: 11 }, 2: { ...filler(3, 30), 40: 12 } }, { perScan: 20 });
    using _ = tree;
    expect(await find(owners, [11, 12], [1, 2])).toEqual([11, 12]);
    expect(owners.descriptorsRead).toBe(20);
    expect(owners.cut).toBeGreaterThan(20);
  });

  it("tolerates processes that have exited", async () => {
    const { tree, owners } = open({ 1: { 3: 11 } });
    using _ = tree;
    expect(await find(owners, [11], [77, 78, 1])).toEqual([]);
  });
});
