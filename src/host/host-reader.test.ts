import { describe, expect, it } from "vitest";
import { createHostReader } from "./host-reader.ts";
import { createHostTree, hasSaneNumbers } from "./host-tree.fixture.ts";

describe("createHostReader()", () => {
  it("takes a whole snapshot of this machine", async () => {
    const reader = createHostReader();
    const snapshot = await reader.snapshot();
    expect(hasSaneNumbers(snapshot)).toBe(true);
    expect(snapshot.stat.cores.size).toBeGreaterThan(0);
    expect(snapshot.memory.totalBytes).toBeGreaterThan(0);
    expect(snapshot.uptimeS).toBeGreaterThan(0);
    expect(snapshot.mounts.mounts.length).toBeGreaterThan(0);
    const own = snapshot.processes.processes.find((one) => one.pid === process.pid)!;
    expect(snapshot.openFiles.get(process.pid)).toBeGreaterThan(0);
    expect(reader.processDetail(own)).toMatchObject({ userId: process.geteuid!(), exe: process.execPath });
  });

  it("returns an empty snapshot of an empty host without throwing", async () => {
    using tree = createHostTree();
    const reader = createHostReader({ root: tree.root });
    const snapshot = await reader.snapshot();
    expect(snapshot.processes.processes).toEqual([]);
    expect(snapshot.cgroups.groups).toEqual([]);
    expect(snapshot.pressure.cpu.someUs).toBeNull();
    expect((await reader.listeners()).listeners).toEqual([]);
    expect(reader.machine().hostname).toBe("");
  });

  it.each([
    ["hidepid=2", true],
    ["hidepid=invisible", true],
    ["hidepid=0", false],
    ["gid=1", false],
  ])("reports whether %s hides processes", async (option, expected) => {
    using tree = createHostTree({ "proc/1/mountinfo": `22 27 0:21 / /proc rw - proc proc rw,${option}\n` });
    expect((await createHostReader({ root: tree.root }).snapshot()).processesHidden).toBe(expected);
  });

  it("finds mounts that were added later", async () => {
    using tree = createHostTree({ "proc/1/mountinfo": "", "data/x": "" });
    const reader = createHostReader({ root: tree.root });
    expect((await reader.snapshot()).mounts.mounts).toEqual([]);
    tree.write({ "proc/1/mountinfo": "1 1 8:1 / /data rw - ext4 /dev/sda1 rw\n" });
    expect((await reader.snapshot()).mounts.mounts).toMatchObject([{ mount: "/data", device: "/dev/sda1" }]);
  });

  it("stops when aborted", async () => {
    const stop = new AbortController();
    const reader = createHostReader();
    const snapshot = reader.snapshot(stop.signal);
    stop.abort(new Error("enough"));
    await expect(snapshot).rejects.toThrow("enough");
    await expect(reader.listeners(AbortSignal.abort(new Error("enough")))).rejects.toThrow("enough");
  });

  it("yields to the event loop during a scan", async () => {
    const stat = "(worker) S 1 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 100 1000 10";
    const processes = Array.from({ length: 4_000 }, (_, index) => index + 2);
    using tree = createHostTree(Object.fromEntries(processes.map((pid) => [`proc/${pid}/stat`, `${pid} ${stat}\n`])));
    let turns = 0;
    let next: NodeJS.Immediate;
    const turn = (): void => {
      turns++;
      next = setImmediate(turn);
    };
    turn();
    const snapshot = await createHostReader({ root: tree.root }).snapshot();
    clearImmediate(next!);
    expect(snapshot.processes.processes).toHaveLength(4_000);
    // This many processes take several slices of 5 ms on any machine; without slices the loop would turn four times.
    expect(turns).toBeGreaterThan(6);
  });
});
