import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Server } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import type { ProbeOutcome, ProbeRequest } from "../../transport/index.ts";
import { type HealthChange, HealthChecks, type HealthChecksOptions } from "./health-checks.ts";
import type { ManagedService } from "./managed-services.ts";

const stops: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
  vi.useRealTimers();
});

const service = (change: Partial<ManagedService> = {}): ManagedService => ({ name: "api", port: 8080, connectedAt: "x", ...change });

interface Started {
  checks: HealthChecks;
  changes: HealthChange[];
  decisions: ReturnType<typeof vi.fn<() => void>>;
  stop: () => Promise<void>;
}

function start(services: () => readonly ManagedService[], change: Partial<HealthChecksOptions> = {}): Started {
  const changes: HealthChange[] = [];
  const checks = new HealthChecks({
    services,
    settings: () => ({ intervalMs: 5, timeoutMs: 5_000, unhealthyAfter: 3, healthyAfter: 2 }),
    addressesOf: () => Promise.resolve([]),
    lastReported: () => Promise.resolve(undefined),
    report: async (item) => {
      changes.push(item);
      await Promise.resolve();
    },
    clock: systemClock,
    log: silentLogger,
    ...change,
  });
  const controller = new AbortController();
  const decisions = vi.fn<() => void>();
  const done = checks.run(controller.signal, decisions);
  const stop = async (): Promise<void> => {
    controller.abort();
    await done;
  };
  stops.push(stop);
  return { checks, changes, decisions, stop };
}

async function listen(server: Server, port = 0, host = "127.0.0.1"): Promise<number> {
  server.listen(port, host);
  await once(server, "listening");
  stops.push(() => void server.close());
  return (server.address() as AddressInfo).port;
}

describe("HealthChecks against real servers", () => {
  it("reports when a service dies and when it recovers", async () => {
    const first = createServer((socket) => socket.end());
    const port = await listen(first);
    const api = service({ port });
    const { checks, changes } = start(() => [api]);
    await vi.waitFor(() => expect(checks.healthOf(port)).toMatchObject({ state: "healthy", detail: "connection accepted" }));
    expect(changes).toEqual([]);

    first.close();
    await vi.waitFor(() => expect(changes).toHaveLength(1));
    expect(changes[0]).toMatchObject({ service: api, before: "healthy", after: "unhealthy", detail: "connection refused" });
    expect(checks.healthOf(port)?.state).toBe("unhealthy");

    await listen(
      createServer((socket) => socket.end()),
      port,
    );
    await vi.waitFor(() => expect(changes).toHaveLength(2));
    expect(changes[1]).toMatchObject({ before: "unhealthy", after: "healthy" });
  });

  it("requests the health path, and counts an error status as a failure", async () => {
    let status = 200;
    const server = createHttpServer((request, response) => response.writeHead(request.url === "/health" ? status : 500).end());
    const port = await listen(server);
    const { checks, changes } = start(() => [service({ port, health: "/health" })]);
    await vi.waitFor(() => expect(checks.healthOf(port)).toMatchObject({ state: "healthy", detail: "HTTP 200 of /health" }));
    status = 503;
    await vi.waitFor(() => expect(changes).toMatchObject([{ after: "unhealthy", detail: "HTTP 503 of /health" }]));
  });

  it("finds a service that does not listen on 127.0.0.1", async () => {
    const onIpv6 = await listen(
      createServer((socket) => socket.end()),
      0,
      "::1",
    );
    const onOther = await listen(
      createServer((socket) => socket.end()),
      0,
      "127.0.0.9",
    );
    const queried: number[] = [];
    const { checks } = start(() => [service({ port: onIpv6 }), service({ name: "b", port: onOther })], {
      addressesOf: (port) => {
        queried.push(port);
        return Promise.resolve(["127.0.0.8", "127.0.0.9"]);
      },
    });
    await vi.waitFor(() => expect(checks.healthOf(onIpv6)?.state).toBe("healthy"));
    await vi.waitFor(() => expect(checks.healthOf(onOther)?.state).toBe("healthy"));
    expect(queried).not.toContain(onIpv6);
    const queriedOnce = queried.length;
    await vi.waitFor(() => expect(Date.parse(checks.healthOf(onOther)?.checkedAt ?? "")).toBeGreaterThan(0));
    // The last good address is tried first.
    expect(queried.length).toBe(queriedOnce);
  });

  it("ends running checks when stopped", async () => {
    const silent = createServer();
    const port = await listen(silent);
    const { stop } = start(() => [service({ port, health: "/" })], {
      settings: () => ({ intervalMs: 5, timeoutMs: 60_000, unhealthyAfter: 1, healthyAfter: 1 }),
    });
    await once(silent, "connection");
    await stop();
  });
});

describe("HealthChecks", () => {
  const refused: ProbeOutcome = { kind: "failed", reason: "timeout", detail: "no response within 2000 ms" };
  const fine: ProbeOutcome = { kind: "fine", detail: "connection accepted" };

  function scripted(outcomes: (ProbeOutcome | undefined)[], change: Partial<HealthChecksOptions> = {}) {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
    const startMs = Date.now();
    const atS: number[] = [];
    const requests: ProbeRequest[] = [];
    const started = start(() => [service()], {
      settings: () => ({ intervalMs: 10_000, timeoutMs: 2_000, unhealthyAfter: 3, healthyAfter: 2 }),
      clock: { wallMs: () => Date.now(), monotonicMs: () => Date.now() },
      random: () => 0.5,
      probe: (request) => {
        requests.push(request);
        atS.push((Date.now() - startMs) / 1_000);
        return Promise.resolve(outcomes[atS.length - 1] ?? outcomes.at(-1) ?? fine);
      },
      ...change,
    });
    return { ...started, atS, requests };
  }

  it("decides quickly, then keeps its interval, and backs off to a minute while failing", async () => {
    const { atS, changes, decisions, requests } = scripted([
      fine,
      fine,
      fine,
      ...Array.from({ length: 8 }, () => refused),
      fine,
      fine,
      fine,
    ]);
    await vi.advanceTimersByTimeAsync(400_000);
    //            unknown  healthy  three failures, then 10, 20, 40, 60, 60 s        back: every 10 s again
    expect(atS.slice(0, 14)).toEqual([0, 1, 11, 21, 31, 41, 51, 71, 111, 171, 231, 291, 301, 311]);
    expect(changes.map((item) => [item.before, item.after])).toEqual([
      ["healthy", "unhealthy"],
      ["unhealthy", "healthy"],
    ]);
    // Healthy, unhealthy, healthy.
    expect(decisions).toHaveBeenCalledTimes(3);
    expect(requests[0]).toMatchObject({ address: "127.0.0.1", port: 8080, timeoutMs: 2_000 });
  });

  it("ignores single failures and single successes", async () => {
    const { checks, changes } = scripted([
      fine,
      fine,
      refused,
      refused,
      fine,
      refused,
      refused,
      fine,
      refused,
      refused,
      refused,
      fine,
      refused,
    ]);
    await vi.advanceTimersByTimeAsync(90_000);
    expect(changes).toEqual([]);
    await vi.advanceTimersByTimeAsync(120_000);
    expect(changes.map((item) => item.after)).toEqual(["unhealthy"]);
    expect(checks.healthOf(8080)?.state).toBe("unhealthy");
  });

  it("reports a service that is unhealthy from the start, not one that is healthy", async () => {
    const { changes, atS } = scripted([refused, refused, refused]);
    await vi.advanceTimersByTimeAsync(2_500);
    expect(atS).toEqual([0, 1, 2]);
    expect(changes).toMatchObject([{ before: "unknown", after: "unhealthy" }]);
  });

  it("compares with the state reported before a restart", async () => {
    const before = scripted([fine], { lastReported: () => Promise.resolve("unhealthy") });
    await vi.advanceTimersByTimeAsync(5_000);
    expect(before.changes).toMatchObject([{ before: "unhealthy", after: "healthy" }]);
    await before.stop();
    const same = scripted([refused], { lastReported: () => Promise.resolve("unhealthy") });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(same.changes).toEqual([]);
    expect(same.checks.healthOf(8080)?.state).toBe("unhealthy");
  });

  it("checks a new service at once, resets a changed one, and drops a removed one", async () => {
    const list: ManagedService[] = [];
    const { checks, atS } = scripted([fine], { services: () => list });
    await vi.advanceTimersByTimeAsync(30_000);
    expect(atS).toEqual([]);
    list.push(service());
    checks.refresh();
    await vi.advanceTimersByTimeAsync(1_500);
    expect(atS).toEqual([30, 31]);
    expect(checks.healthOf(8080)?.state).toBe("healthy");
    list[0] = service({ health: "/new" });
    expect(checks.healthOf(8080)).toEqual({ state: "unknown", detail: "not checked yet", checkedAt: null });
    list.length = 0;
    checks.refresh();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(checks.healthOf(8080)).toBeUndefined();
    expect(atS).toHaveLength(2);
  });

  it("does not check UDP, and continues when an event cannot be stored", async () => {
    const udp = scripted([fine], { services: () => [service({ type: "udp" })] });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(udp.atS).toEqual([]);
    expect(udp.checks.healthOf(8080)).toMatchObject({ state: "unknown", detail: "UDP is not checked" });
    await udp.stop();
    const failing = scripted([refused], { report: () => Promise.reject(new Error("disk full")) });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(failing.atS.length).toBeGreaterThan(4);
  });

  it("runs 16 checks at a time", async () => {
    let now = 0;
    let most = 0;
    const services = Array.from({ length: 100 }, (_, index) => service({ name: `s${index}`, port: 1_000 + index }));
    const { checks, decisions } = start(() => services, {
      probe: async () => {
        most = Math.max(most, ++now);
        await new Promise((resolve) => setTimeout(resolve, 2));
        now--;
        return fine;
      },
    });
    await vi.waitFor(() => expect(services.every((item) => checks.healthOf(item.port)?.state === "healthy")).toBe(true));
    expect(most).toBe(16);
    // A hundred decisions at once cause one scan; a machine that takes seconds for them may cause a second one.
    expect(decisions.mock.calls.length).toBeLessThan(5);
  });
});
