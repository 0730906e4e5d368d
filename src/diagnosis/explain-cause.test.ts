import { describe, expect, it } from "vitest";
import { type DiagnosisFacts, loadMeasures, type MeasureFact, requestMeasures } from "../model/diagnosis.ts";
import { diagnose } from "./diagnose.ts";
import { facts, host, measure, pair, steady } from "./diagnosis.fixture.ts";

const route = (service: string, subject: string, before: number, after: number): MeasureFact =>
  measure({ service, subject, name: requestMeasures.duration, unit: "us", before: steady(before), after: steady(after) });
const cpu = (service: string, before: number, after: number): MeasureFact =>
  measure({ service, name: loadMeasures.cpu, unit: "cores", kind: "resource", before: steady(before), after: steady(after) });
const traffic = (service: string, name: string, subject: string, before: number, after: number): MeasureFact =>
  measure({ service, name, subject, unit: "/s", kind: "traffic", before: steady(before), after: steady(after) });

const first = (values: Partial<DiagnosisFacts>) => {
  const found = diagnose(facts({ calls: [{ caller: "web", callee: "stock" }], ...values }), { entry: null, symptom: null });
  const [cause] = found.causes;
  return { service: cause?.service, kind: cause?.kind, pointer: cause?.pointer, statement: cause?.evidence[0]?.statement };
};

describe("the cause of a slow service", () => {
  it("is the code of the only route that burns CPU", () => {
    const measures = [route("stock", "GET /search", 20_000, 200_000), route("stock", "GET /items", 5_000, 9_000), cpu("stock", 0.1, 0.7)];
    expect(first({ measures })).toMatchObject({ service: "stock", kind: "hot-code", pointer: "GET /search" });
  });

  it("is a busy thread when all routes are equally late", () => {
    const measures = [route("stock", "GET /search", 20_000, 140_000), route("stock", "GET /items", 5_000, 120_000), cpu("stock", 0.1, 0.7)];
    expect(first({ measures })).toMatchObject({ service: "stock", kind: "blocked-thread" });
  });

  it("is code that burns CPU where few requests use little, if that is what they take longer for", () => {
    const measures = [
      route("stock", "GET /search", 11_000, 76_000),
      route("stock", "GET /items", 7_000, 24_000),
      traffic("stock", requestMeasures.rate, "", 12, 12),
    ];
    expect(first({ measures: [...measures, cpu("stock", 0.02, 0.08)] })).toMatchObject({ kind: "hot-code", pointer: "GET /search" });
    // Half a second longer at the same CPU time is a wait.
    const waiting = [route("stock", "GET /search", 11_000, 600_000), ...measures.slice(2)];
    expect(first({ measures: [...waiting, cpu("stock", 0.02, 0.08)] }).kind).toBe("waiting");
  });

  it("is not CPU when there are more requests", () => {
    const measures = [
      route("stock", "GET /search", 20_000, 200_000),
      cpu("stock", 0.1, 0.7),
      traffic("stock", requestMeasures.rate, "", 10, 60),
    ];
    expect(first({ measures }).kind).not.toBe("hot-code");
  });

  it("is the pool when a healthy database gets fewer calls", () => {
    const measures = [
      route("stock", "GET /orders", 20_000, 900_000),
      route("db", "SELECT 1", 1_000, 1_000),
      cpu("stock", 0.1, 0.08),
      traffic("stock", requestMeasures.rate, "", 14, 13),
      traffic("stock", requestMeasures.calls, "db", 14, 3),
    ];
    expect(first({ measures, calls: [{ caller: "stock", callee: "db" }] })).toMatchObject({
      service: "stock",
      kind: "pool-exhausted",
      pointer: "connections to db",
    });
  });

  it("is the pool of the dependency that lost the most calls", () => {
    const measures = [
      route("stock", "GET /orders", 20_000, 900_000),
      cpu("stock", 0.1, 0.08),
      traffic("stock", requestMeasures.rate, "", 14, 13),
      // A job is queued once an order is stored.
      traffic("stock", requestMeasures.calls, "cache", 4, 0),
      traffic("stock", requestMeasures.calls, "db", 14, 0),
    ];
    expect(first({ measures })).toMatchObject({ kind: "pool-exhausted", pointer: "connections to db" });
  });

  it("is no pool when requests fail at once, before the calls that they would make", () => {
    const measures = [
      route("stock", "POST /charge", 31_000, 900),
      route("stock", "GET /charges", 1_050, 1_600),
      measure({
        ...{ service: "stock", subject: "POST /charge", name: requestMeasures.failed, unit: "ratio", kind: "errors" },
        ...{ before: steady(0), after: steady(1) },
      }),
      cpu("stock", 0.02, 0.02),
      traffic("stock", requestMeasures.rate, "", 8, 8),
      traffic("stock", requestMeasures.calls, "names", 3.7, 0),
    ];
    expect(first({ measures })).toMatchObject({ service: "stock", kind: "failing", pointer: "POST /charge" });
  });

  it("is a lock when an update waits without CPU, and the statement when it uses more", () => {
    const update = "UPDATE stock SET units = ?";
    expect(first({ measures: [route("db", update, 1_000, 300_000), cpu("db", 0.1, 0.1)] })).toMatchObject({
      kind: "lock-wait",
      pointer: update,
    });
    const select = "SELECT * FROM orders WHERE user_id = ?";
    expect(first({ measures: [route("db", select, 1_000, 90_000), cpu("db", 0.1, 0.9)] })).toMatchObject({
      kind: "slow-statement",
      pointer: select,
    });
  });

  it("is a slower disk on its host, or lost packets", () => {
    const measures = [route("stock", "POST /orders", 5_000, 400_000), cpu("stock", 0.1, 0.1)];
    const disks = [{ device: "sdb", latencyMs: pair(1, 220), busy: pair(0.1, 1) }];
    expect(first({ measures, hosts: [host({ disks })] })).toMatchObject({ kind: "disk-wait", pointer: "disk sdb" });
    expect(first({ measures, hosts: [host({ ioWait: pair(0.02, 0.5) })] })).toMatchObject({ kind: "disk-wait", pointer: "disk I/O" });
    expect(first({ measures, hosts: [host({ disks, services: ["other"] })] }).kind).toBe("waiting");
    expect(first({ measures, hosts: [host({ retransmits: pair(0.001, 0.06) })] })).toMatchObject({ kind: "packet-loss" });
  });
});

describe("calls that are slow on the way", () => {
  const slow = route("stock", "POST /orders", 5_000, 260_000);
  const outside = (subject: string, before: number, after: number) =>
    measure({
      service: "stock",
      name: requestMeasures.outside,
      subject,
      unit: "us",
      kind: "traffic",
      before: steady(before),
      after: steady(after),
    });
  const measures = [slow, cpu("stock", 0.1, 0.1), outside("db", 800, 230_000), outside("cache", 700, 900)];

  it("are lost packets where the host sends more segments again, though others keep the share low", () => {
    const found = first({ measures, hosts: [host({ retransmits: pair(0.0015, 0.0035) })] });
    expect(found).toMatchObject({ service: "stock", kind: "packet-loss", pointer: "TCP retransmits between stock and db" });
  });

  it("are a slow link otherwise", () => {
    expect(first({ measures, hosts: [host({})] })).toMatchObject({ kind: "slow-link", pointer: "stock → db" });
  });

  it("are no reason to fail", () => {
    const failing = measure({
      ...{ service: "stock", subject: "GET /charges", name: requestMeasures.failed, unit: "ratio", kind: "errors" },
      ...{ before: steady(0), after: steady(1) },
    });
    expect(first({ measures: [failing, cpu("stock", 0.1, 0.1), outside("names", 1_100, 5_200)] })).toMatchObject({
      kind: "failing",
      pointer: "GET /charges",
    });
  });

  it("are not the reason when they take as long as usual, even if the host loses packets", () => {
    const usual = [slow, cpu("stock", 0.1, 0.1), outside("db", 800, 900)];
    expect(first({ measures: usual, hosts: [host({ retransmits: pair(0.001, 0.06) })] }).kind).toBe("waiting");
  });
});

describe("the cause outside of a service", () => {
  const slow = [route("web", "GET /buy", 20_000, 200_000), route("stock", "GET /reserve", 10_000, 120_000)];
  const full = { busy: pair(0.3, 1), cpuWait: pair(0.1, 0.95) };
  const taker = { name: "ffmpeg", service: "", processes: 12, coresBefore: 0, coresAfter: 1.6 };

  it("is the host whose cores another program uses", () => {
    const found = first({ measures: slow, hosts: [host({ ...full, programs: [taker] })] });
    expect(found).toMatchObject({ service: "host vm1", kind: "host", pointer: "ffmpeg (12 processes)" });
    expect(found.statement).toContain("2 of its services are slower");
  });

  it("is the host whose cores were busy with work that gave way, when tasks wait more", () => {
    const busy = { busy: pair(0.99, 1), programs: [taker] };
    expect(first({ measures: slow, hosts: [host({ ...busy, cpuWait: pair(0.6, 0.97) })] }).kind).toBe("host");
    expect(first({ measures: slow, hosts: [host({ ...busy, cpuWait: pair(0.93, 0.97) })] }).kind).not.toBe("host");
  });

  it("is not a busy host when one of its services uses the cores, or no service suffers", () => {
    const own = { ...taker, service: "stock" };
    expect(first({ measures: slow, hosts: [host({ ...full, programs: [own] })] }).kind).not.toBe("host");
    const well = [route("web", "GET /buy", 20_000, 20_000), route("stock", "GET /reserve", 10_000, 10_000)];
    expect(first({ measures: well, hosts: [host({ ...full, programs: [taker] })] }).kind).toBeUndefined();
  });

  it("is the limit that throttles a service, and its callers only suffer", () => {
    const limits = [
      { service: "stock", cpuCores: 0.5, throttled: pair(0, 0.8), oomKills: 0, memoryUsed: 1, memoryUsedBefore: 1, memoryLimit: null },
    ];
    expect(first({ measures: slow, limits })).toMatchObject({ service: "stock", kind: "cpu-limit", pointer: "CPU limit of 0.5 cores" });
  });

  it("is not a limit that a service reached a while ago, when its requests are well and its caller suffers from another", () => {
    const limits = [
      { service: "stock", cpuCores: 0.02, throttled: pair(0, 0.22), oomKills: 0, memoryUsed: 1, memoryUsedBefore: 1, memoryLimit: null },
    ];
    const measures = [
      route("web", "GET /buy", 20_000, 330_000),
      route("stock", "GET /reserve", 10_000, 10_500),
      route("pay", "POST /charge", 10_000, 310_000),
    ];
    const calls = ["stock", "pay"].map((callee) => ({ caller: "web", callee }));
    expect(first({ measures, limits, calls }).service).toBe("pay");
  });

  it("is the memory limit of a service that the kernel kills, even if only its caller fails", () => {
    const failing = measure({
      service: "web",
      subject: "GET /buy",
      name: requestMeasures.failed,
      unit: "ratio",
      kind: "errors",
      before: steady(0),
      after: steady(0.4),
    });
    const memory = { memoryUsed: 2 ** 27, memoryUsedBefore: 2 ** 26, memoryLimit: 2 ** 27 };
    const limits = [{ service: "stock", cpuCores: null, throttled: pair(0, 0), oomKills: 2, ...memory }];
    expect(first({ measures: [failing], limits })).toMatchObject({ service: "stock", kind: "out-of-memory" });
    expect(first({ measures: [{ ...failing, after: steady(0) }], limits }).kind).toBeUndefined();
  });

  it("is an exited process if its callers fail, and nothing if no caller does", () => {
    const failing = measure({
      service: "web",
      subject: "GET /buy",
      name: requestMeasures.failed,
      unit: "ratio",
      kind: "errors",
      before: steady(0),
      after: steady(0.9),
    });
    const changes = [{ timeMs: 3_665_000, service: "stock", kind: "service-exited", message: "stock exited" }];
    const rate = { ...traffic("stock", requestMeasures.rate, "", 10, 0) };
    expect(first({ measures: [failing, rate], changes })).toMatchObject({ service: "stock", kind: "down" });
    expect(first({ measures: [rate], changes }).kind).toBeUndefined();
  });

  describe("a process exit that is seen late", () => {
    const failing = measure({
      service: "web",
      subject: "GET /buy",
      name: requestMeasures.failed,
      unit: "ratio",
      kind: "errors",
      before: steady(0),
      after: steady(0.9),
    });
    const ownFailing = { ...failing, service: "stock", subject: "GET /reserve", after: steady(0.6) };
    const fromMs = 3_660_000;
    const after = { fromMs, untilMs: fromMs + 60_000 };
    const exitedAt = (timeMs: number) => [{ timeMs, service: "stock", kind: "service-exited", message: "stock exited" }];
    /** Requests at the usual rate in this many ten-second steps. */
    const servedIn = (steps: number) => ({
      ...traffic("stock", requestMeasures.rate, "", 10, 10),
      before: steady(10, 1, 350),
      after: steady(steps === 0 ? 0 : 9, 1, steps),
    });

    it("is down even if its last steps have the usual rate and its own last requests failed", () => {
      const found = first({ after, measures: [failing, ownFailing, servedIn(1)], changes: exitedAt(fromMs + 25_000) });
      expect(found).toMatchObject({ service: "stock", kind: "down" });
      expect(found.statement).toBe("its process ended, and it serves 0 /s, was 10 /s");
    });

    it("is down if it exited shortly before its callers failed, and not long before", () => {
      const measures = [failing, servedIn(0)];
      expect(first({ after, measures, changes: exitedAt(fromMs - 90_000) })).toMatchObject({ service: "stock", kind: "down" });
      expect(first({ after, measures, changes: exitedAt(fromMs - 600_000) }).kind).not.toBe("down");
    });

    it("is down although no agent was there for most of the usual time", () => {
      const seldom = { ...servedIn(1), before: steady(10, 1, 60) };
      const found = first({ after, measures: [failing, ownFailing, seldom], changes: exitedAt(fromMs + 25_000) });
      expect(found).toMatchObject({ service: "stock", kind: "down" });
    });

    it("is not down if another of its processes continues", () => {
      expect(first({ after, measures: [failing, servedIn(6)], changes: exitedAt(fromMs + 25_000) }).kind).not.toBe("down");
    });
  });
});
