import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it, vi } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { createPacer } from "../files/pacer.ts";
import { createHostTree, hasCommand } from "../host-tree.fixture.ts";
import { readKernelUnits } from "./auxiliary-vector.ts";
import { createOpenFileCounter } from "./open-files.ts";
import { readProcessDetail, scanProcesses } from "./processes.ts";

const statOf = (pid: number, name = "nginx"): string =>
  `${pid} (${name}) S 1 42 42 0 -1 4194560 120 0 7 0 250 50 0 0 20 0 12 0 8500 104857600 5059 18446744073709551615 1 1\n`;

describe("scanProcesses()", () => {
  it("reads numeric directories, skips those that ended, counts damaged ones", async () => {
    using tree = createHostTree({
      "proc/1/stat": statOf(1, "systemd"),
      "proc/42/stat": statOf(42),
      "proc/43/status": "Name: gone\n",
      "proc/44/stat": "44 (cut",
      "proc/meminfo": "",
      "proc/0123/stat": statOf(123),
      "proc/sys/x": "",
    });
    const scan = await scanProcesses(createHostRoot(tree.root), createPacer());
    expect(scan.processes.map((process) => process.pid)).toEqual([1, 42]);
    expect(scan).toMatchObject({ cut: 0, tally: { vanished: 1, failed: 1, denied: 0 } });
  });

  it("is empty without /proc", async () => {
    using tree = createHostTree();
    expect((await scanProcesses(createHostRoot(tree.root), createPacer())).processes).toEqual([]);
  });

  it("tolerates processes that start and exit during the scan", async () => {
    const root = createHostRoot();
    const children = Array.from({ length: 20 }, () => spawn("true", { stdio: "ignore" }));
    const ended = Promise.all(children.map((child) => once(child, "exit")));
    for (let round = 0; round < 5; round++) {
      const { processes } = await scanProcesses(root, createPacer());
      expect(processes.some((one) => one.pid === process.pid)).toBe(true);
    }
    await ended;
  });

  it("yields when due, and stops when aborted", async () => {
    const stop = new AbortController();
    const pacer = { ...createPacer(stop.signal), due: () => true };
    stop.abort(new Error("enough"));
    await expect(scanProcesses(createHostRoot(), pacer)).rejects.toThrow("enough");
  });

  it.skipIf(!hasCommand("ps"))("agrees with ps(1) on this machine", async () => {
    const { pageBytes } = readKernelUnits();
    await vi.waitFor(
      async () => {
        const { processes } = await scanProcesses(createHostRoot(), createPacer());
        const lines = execFileSync("ps", ["-e", "-o", "pid=,rss=,nlwp=,comm="], { encoding: "utf8" }).trim().split("\n");
        const theirs = new Map(lines.map((line) => [Number(line.trim().split(/\s+/)[0]), line.trim().split(/\s+/)]));
        const shared = processes.filter((one) => theirs.has(one.pid));
        // ps itself and short-lived neighbours.
        expect(Math.abs(shared.length - theirs.size)).toBeLessThan(8);
        const own = processes.find((one) => one.pid === process.pid)!;
        const [, rssKib, threads] = theirs.get(process.pid)!;
        expect(own.threads).toBe(Number(threads));
        expect(Math.abs(own.rssPages * pageBytes - Number(rssKib) * 1024)).toBeLessThan(32 * 1024 * 1024);
        const idle = shared.filter((one) => one.isKernelThread);
        for (const one of idle) expect(theirs.get(one.pid)![1]).toBe("0");
      },
      { timeout: 10_000 },
    );
  });
});

describe("readProcessDetail()", () => {
  it("reads owner, executable, group and open files", async () => {
    using tree = createHostTree({
      "proc/42/stat": statOf(42),
      "proc/42/status": "Name:\tnginx\nUid:\t0\t33\t33\t33\nGid:\t33\t33\t33\t33\n",
      "proc/42/cgroup": "0::/system.slice/nginx.service\n",
      "proc/42/exe": { link: "/usr/sbin/nginx (deleted)" },
      "proc/42/fd/0": "",
      "proc/42/fd/1": "",
    });
    const root = createHostRoot(tree.root);
    const [stat] = (await scanProcesses(root, createPacer())).processes;
    expect(readProcessDetail(root, stat!, createOpenFileCounter(root))).toEqual({
      userId: 33,
      exe: "/usr/sbin/nginx",
      cgroup: "/system.slice/nginx.service",
      openFiles: 2,
    });
  });

  it("returns nulls for unreadable fields, and null if the process has exited", async () => {
    using tree = createHostTree({ "proc/42/stat": statOf(42), "proc/42/status": "Uid:\t0\t0\t0\t0\n", "proc/43/stat": statOf(43) });
    const root = createHostRoot(tree.root);
    const [first, second] = (await scanProcesses(root, createPacer())).processes;
    const counter = createOpenFileCounter(root);
    expect(readProcessDetail(root, first!, counter)).toEqual({ userId: 0, exe: null, cgroup: null, openFiles: null });
    expect(readProcessDetail(root, second!, counter)).toBeNull();
  });
});
