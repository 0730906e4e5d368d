import { describe, expect, it } from "vitest";
import { event } from "../../store/signals/index.ts";
import { factsOf, scanOf, type TestProcess } from "./discovery-scan.fixture.ts";
import type { ServiceInstance } from "./service-instances.ts";
import { createServiceLifecycle, type EventRow } from "./service-lifecycle.ts";

interface Running extends TestProcess {
  port?: number | null;
}

/** Ids differ from names, so that a test fails if one is used for the other. */
const nameOf = (name: string): ServiceInstance["name"] => ({
  service: `program:${name}`,
  name,
  namedBy: "script",
  confidence: 0.8,
  origin: "",
  qualifiers: [],
  aliases: [],
});

class Scans {
  readonly lifecycle = createServiceLifecycle();
  #nowMs = 0;

  /** Processes of the next scan; `alive` run without being an instance. */
  next(running: Running[], alive: TestProcess[] = [], afterMs = 30_000): EventRow[] {
    this.#nowMs += afterMs;
    const instances = running.map(
      (process): ServiceInstance => ({
        name: nameOf(process.service ?? "api"),
        isManaged: false,
        method: "listening_socket",
        protocol: process.port === null ? null : "tcp",
        port: process.port === undefined ? 80 : process.port,
        address: "0.0.0.0",
        facts: factsOf(process),
        networkNamespace: 100,
        userId: 0,
        addresses: new Set(),
      }),
    );
    const scan = scanOf({ processes: [...running, ...alive] });
    return this.lifecycle.eventsOf(instances, scan, { at: this.#nowMs * 1_000, mono_ms: this.#nowMs });
  }
}

const text = (events: EventRow[]): string[] => events.map(({ kind, severity, pid }) => `${kind} ${severity} ${pid}`);

describe("createServiceLifecycle()", () => {
  it("uses the first scan as the baseline", () => {
    expect(new Scans().next([{ pid: 5 }])).toEqual([]);
  });

  it("reports a restart with the process before and after", () => {
    const scans = new Scans();
    scans.next([{ pid: 5, build: "a" }]);
    const [row, ...rest] = scans.next([{ pid: 9, build: "a" }]);
    expect(rest).toEqual([]);
    expect(row).toMatchObject({
      kind: "service-restarted",
      severity: "warning",
      service: "program:api",
      pid: 9,
      message: "api restarted: pid 5 is now 9",
    });
    expect(Object.keys(row!).sort()).toEqual([...Object.keys(event.columns), "at", "mono_ms"].sort());
    expect(JSON.parse(row!.details)).toMatchObject({
      port: 80,
      protocol: "tcp",
      before: { pid: 5, startTicks: 5, build: "a" },
      after: { pid: 9, startTicks: 9, build: "a" },
    });
    expect(scans.next([{ pid: 9, build: "a" }])).toEqual([]);
  });

  it("detects a restart under the same pid by the start time", () => {
    const scans = new Scans();
    scans.next([{ pid: 5, start: 100 }]);
    expect(text(scans.next([{ pid: 5, start: 200 }]))).toEqual(["service-restarted warning 5"]);
  });

  it("reports another binary, also when its hash is known only later", () => {
    const scans = new Scans();
    scans.next([{ pid: 5, build: "a" }]);
    const events = scans.next([{ pid: 9, build: "b" }]);
    expect(text(events)).toEqual(["service-restarted info 9", "binary-updated info 9"]);
    expect(JSON.parse(events[1]!.details)).toMatchObject({ where: "process", before: { build: "a" }, after: { pid: 9, build: "b" } });
    expect(text(scans.next([{ pid: 12, build: null }]))).toEqual(["service-restarted warning 12"]);
    expect(text(scans.next([{ pid: 12, build: "c" }]))).toEqual(["binary-updated info 12"]);
    expect(scans.next([{ pid: 12, build: "c" }])).toEqual([]);
  });

  it("reports a process that executed another program", () => {
    const scans = new Scans();
    scans.next([{ pid: 5, build: "a" }]);
    expect(text(scans.next([{ pid: 5, build: "b" }]))).toEqual(["binary-updated info 5"]);
  });

  it("reports a replaced file under a running process once, and not for the same build", () => {
    const scans = new Scans();
    scans.next([{ pid: 5, build: "a" }]);
    expect(scans.next([{ pid: 5, build: "a", disk: { key: "touched", build: "a" } }])).toEqual([]);
    // Its hash is not known yet.
    expect(scans.next([{ pid: 5, build: "a", disk: { key: "new", build: null } }])).toEqual([]);
    const events = scans.next([{ pid: 5, build: "a", disk: { key: "new", build: "b" } }]);
    expect(text(events)).toEqual(["binary-updated info 5"]);
    expect(events[0]!.message).toBe("The program of api was replaced on disk: pid 5 still runs build a, the file is build b");
    expect(JSON.parse(events[0]!.details)).toMatchObject({ where: "disk", before: { build: "a" }, after: { build: "b" } });
    expect(scans.next([{ pid: 5, build: "a", disk: { key: "new", build: "b" } }])).toEqual([]);
    expect(scans.next([{ pid: 5, build: "a", disk: null }])).toEqual([]);
    expect(text(scans.next([{ pid: 6, build: "b" }]))).toEqual(["service-restarted info 6", "binary-updated info 6"]);
  });

  it("waits one scan for a restart before it reports an exit", () => {
    const scans = new Scans();
    scans.next([{ pid: 5 }]);
    expect(scans.next([])).toEqual([]);
    expect(scans.lifecycle.awaitsRestart).toBe(true);
    const events = scans.next([], [], 3_000);
    expect(text(events)).toEqual(["service-exited error 5"]);
    expect(JSON.parse(events[0]!.details)).toMatchObject({ before: { pid: 5 }, after: null, remaining: 0 });
    expect([scans.lifecycle.awaitsRestart, scans.next([]).length]).toEqual([false, 0]);

    const slow = new Scans();
    slow.next([{ pid: 5 }]);
    slow.next([]);
    expect(text(slow.next([{ pid: 6 }], [], 3_000))).toEqual(["service-restarted warning 6"]);
  });

  it("ignores workers that come and go", () => {
    const scans = new Scans();
    const master = { pid: 5 };
    scans.next([master, { pid: 6, parent: 5 }, { pid: 7, parent: 5 }]);
    expect(scans.next([master, { pid: 8, parent: 5 }, { pid: 9, parent: 5 }])).toEqual([]);
    expect(scans.next([master])).toEqual([]);
    expect(scans.lifecycle.awaitsRestart).toBe(false);
  });

  it("reports a master that exited while its workers remain", () => {
    const scans = new Scans();
    scans.next([{ pid: 5 }, { pid: 6, parent: 5 }, { pid: 7, parent: 5 }]);
    scans.next([
      { pid: 6, parent: 1 },
      { pid: 7, parent: 1 },
    ]);
    const events = scans.next([
      { pid: 6, parent: 1 },
      { pid: 7, parent: 1 },
    ]);
    expect(text(events)).toEqual(["service-exited warning 5"]);
    expect(events[0]!.message).toBe("api exited: pid 5 is gone; 2 other processes remain");
  });

  it("knows what runs at the service's other ports", () => {
    const scans = new Scans();
    const blue = { pid: 5, port: 80, build: "a" };
    const green = { pid: 9, port: 81, build: "b" };
    scans.next([blue]);
    scans.next([blue, green]);
    scans.next([green]);
    const [replaced] = scans.next([green]);
    expect(replaced).toMatchObject({
      severity: "info",
      message: "api exited: pid 5 is gone; pid 9 on port 81 has replaced it",
    });
    scans.next([green, { pid: 12, port: 82, build: "b" }]);
    scans.next([green]);
    expect(scans.next([green])[0]).toMatchObject({ severity: "warning", message: "api exited: pid 12 is gone; 1 other process remains" });
    scans.next([]);
    expect(scans.next([])[0]).toMatchObject({ severity: "error", message: "api exited: pid 9 is gone, and nothing replaced it" });
  });

  it("pairs exited and new processes of several replicas", () => {
    const scans = new Scans();
    scans.next([{ pid: 5 }, { pid: 6 }]);
    expect(text(scans.next([{ pid: 5 }, { pid: 8 }]))).toEqual(["service-restarted warning 8"]);
    expect(scans.next([{ pid: 5 }, { pid: 8 }, { pid: 9 }])).toEqual([]);
  });

  it("reports a process with several ports once", () => {
    const scans = new Scans();
    const at = (pid: number) => [80, 81, 82].map((port) => ({ pid, port }));
    scans.next(at(5));
    expect(text(scans.next(at(6)))).toEqual(["service-restarted warning 6"]);
  });

  it("does not report a renamed service or a closed port as an exit", () => {
    const scans = new Scans();
    scans.next([
      { pid: 5, service: "perl" },
      { pid: 6, service: "db", port: 5432 },
    ]);
    const alive = [{ pid: 6, service: "db" }];
    for (let round = 0; round < 3; round++) expect(scans.next([{ pid: 5, service: "shop" }], alive)).toEqual([]);
  });

  it("reports the exit of an old worker without a port, not of a short task", () => {
    const scans = new Scans();
    scans.next([{ pid: 5, port: null, service: "worker" }]);
    scans.next(
      [
        { pid: 5, port: null, service: "worker" },
        { pid: 9, port: null, service: "task" },
      ],
      [],
      15 * 60_000,
    );
    scans.next([]);
    expect(text(scans.next([]))).toEqual(["service-exited error 5"]);
  });

  it("does not report a short-lived service on an ephemeral port", () => {
    const scans = new Scans();
    scans.next([{ pid: 5, port: 40_000 }]);
    scans.next(
      [
        { pid: 5, port: 40_000 },
        { pid: 6, service: "test", port: 40_001 },
      ],
      [],
      60_000,
    );
    scans.next([]);
    expect(text(scans.next([]))).toEqual(["service-exited error 5"]);
  });

  it("forgets exited services", () => {
    const scans = new Scans();
    scans.next([]);
    for (let pid = 10; pid < 5_000; pid += 10) scans.next([{ pid, service: `s${pid}` }]);
    scans.next([]);
    scans.next([]);
    expect(scans.lifecycle.awaitsRestart).toBe(false);
  });
});
