import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { createHostRoot } from "../files/host-root.ts";
import { createPacer } from "../files/pacer.ts";
import { createHostTree, hasSaneNumbers, type TreeEntry } from "../host-tree.fixture.ts";
import { createProcessTable, namespaceInode, parseStatFields } from "./process-table.ts";

interface Facts {
  name?: string;
  parent?: number;
  start?: number;
  stack?: number;
  state?: string;
  flags?: number;
  namespace?: number;
}

const statOf = (pid: number, { name = "app", parent = 1, start = 500, stack = 140_000, state = "S", flags = 4_194_560 }: Facts): string =>
  `${pid} (${name}) ${state} ${parent} 42 42 0 -1 ${flags} 120 0 7 0 250 50 0 -3 20 0 12 0 ${start} 104857600 5059 18446744073709551615 1 2 ${stack} 0 0\n`;
const files = (pid: number, facts: Facts = {}): Record<string, TreeEntry> => ({
  [`proc/${pid}/stat`]: statOf(pid, facts),
  ...(facts.namespace === undefined ? {} : { [`proc/${pid}/ns/net`]: { link: `net:[${facts.namespace}]` } }),
});
const parse = (text: string) => parseStatFields(Buffer.from(text));

describe("parseStatFields()", () => {
  it("reads parent, start time, stack address, and kind of process", () => {
    expect(parse(statOf(42, { parent: 7, start: 8500, stack: 140_736_000 }))).toMatchObject({
      parentPid: 7,
      startTicks: 8500,
      execMark: 140_736_000,
      isKernelThread: false,
      isZombie: false,
    });
    expect(parse(statOf(42, { name: "a) S 9 (b", parent: 7 }))).toMatchObject({ parentPid: 7 });
    expect(parse(statOf(42, { state: "Z" }))?.isZombie).toBe(true);
    expect(parse(statOf(2, { flags: 0x208040 }))?.isKernelThread).toBe(true);
    expect(parse(readFileSync("/proc/self/stat", "utf8"))?.parentPid).toBe(process.ppid);
  });

  it("tolerates malformed input", () => {
    for (const text of damagedTexts([statOf(42, {})], 31, 1000)) expect(hasSaneNumbers(parse(text)), JSON.stringify(text)).toBe(true);
  });
});

describe("namespaceInode()", () => {
  it.each([
    ["net:[4026531833]", 4_026_531_833],
    ["net:[x]", null],
    ["mnt:[1]", null],
    [null, null],
  ])("of %j is %j", (link, expected) => {
    expect(namespaceInode(link)).toBe(expected);
  });
});

describe("createProcessTable()", () => {
  it("reports new and exited processes and a new program under the same pid, and ignores re-parenting", async () => {
    using tree = createHostTree({
      ...files(1, { parent: 0 }),
      ...files(10),
      ...files(11, { parent: 10 }),
      ...files(12),
      "proc/meminfo": "",
    });
    const table = createProcessTable(createHostRoot(tree.root));
    const first = await table.refresh(createPacer());
    expect(first.added.map(({ pid }) => pid).sort()).toEqual([1, 10, 11, 12]);
    expect(table.childrenOf(10).map(({ pid }) => pid)).toEqual([11]);

    rmSync(join(tree.root, "proc/10"), { recursive: true });
    tree.write({ ...files(11, { parent: 1 }), ...files(12, { stack: 99, name: "worker" }), ...files(13) });
    const second = await table.refresh(createPacer());
    expect(second.added.map(({ pid, name }) => `${pid} ${name}`).sort()).toEqual(["12 worker", "13 app"]);
    expect(second.removed.map(({ pid, name }) => `${pid} ${name}`).sort()).toEqual(["10 app", "12 app"]);
    expect(table.get(11)).toMatchObject({ parentPid: 1, sinceScan: 1 });
    expect(await table.refresh(createPacer())).toMatchObject({ added: [], removed: [] });
  });

  it("skips kernel threads, zombies and processes that vanish", async () => {
    using tree = createHostTree({
      ...files(2, { flags: 0x208040 }),
      ...files(3, { state: "Z" }),
      "proc/4/status": "",
      ...files(5),
      "proc/0123/stat": statOf(123, {}),
    });
    const table = createProcessTable(createHostRoot(tree.root));
    await table.refresh(createPacer());
    expect([...table.values()].map(({ pid }) => pid)).toEqual([5]);
  });

  it("keeps a few members of each namespace, and follows a program that changes its namespace", async () => {
    using tree = createHostTree({
      ...files(1, { namespace: 7 }),
      ...Object.assign({}, ...[20, 21, 22, 23, 24, 25].map((pid) => files(pid, { namespace: 8 }))),
      ...files(30),
    });
    const table = createProcessTable(createHostRoot(tree.root));
    await table.refresh(createPacer());
    expect([...table.namespaces()].map(([inode, members]) => [inode, members.length])).toEqual([
      [7, 1],
      [8, 4],
    ]);
    expect(table.get(30)?.networkNamespace).toBeNull();
    rmSync(join(tree.root, "proc/1/ns/net"));
    tree.write({ "proc/1/ns/net": { link: "net:[9]" } });
    for (let scan = 0; scan < 12; scan++) await table.refresh(createPacer());
    expect(table.get(1)?.networkNamespace).toBe(9);
  });

  it("reports a real child that starts, executes another program, and exits", async () => {
    const table = createProcessTable(createHostRoot());
    await table.refresh(createPacer());
    const child = spawn("sh", ["-c", "read line; exec sleep 1000"], { stdio: ["pipe", "ignore", "inherit"] });
    try {
      const { added } = await table.refresh(createPacer());
      expect(added.find(({ pid }) => pid === child.pid)).toMatchObject({ parentPid: process.pid });
      child.stdin.write("\n");
      let names: string[] = [];
      while (!names.includes("sleep"))
        names = (await table.refresh(createPacer())).added.filter(({ pid }) => pid === child.pid).map(({ name }) => name);
    } finally {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    }
    expect((await table.refresh(createPacer())).removed.some(({ pid }) => pid === child.pid)).toBe(true);
  });
});
