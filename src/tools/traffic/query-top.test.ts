import { describe, expect, it } from "vitest";
import type { TopResult } from "../schemas/traffic.ts";
import { call, messages, redFact, redOf } from "./traffic-tools.fixture.ts";

describe("coral_query_top", () => {
  const red = redOf([
    redFact("api", { requests: 1_200, errors: 12, points: [100, 200] }),
    redFact("api", { protocol: "grpc", requests: 600, p95Us: 9_999, points: [50, 50] }),
    redFact("api", { role: "client", protocol: "postgres", requests: 90_000 }),
    redFact("worker", { role: "client", protocol: "redis", requests: 60, p95Us: 50_000 }),
  ]);
  const serviceCpu = async () => [
    { service: "api", cpuCores: 0.5, rssBytes: 1_024 },
    { service: "batch", cpuCores: 1.9, rssBytes: 2_048 },
  ];

  it("shows each service once, by the requests it serves, with the CPU of its processes", async () => {
    const answer = await call<TopResult>("coral_query_top", {}, { red, serviceCpu });
    expect(answer).toMatchObject({ total: 3, perSecond: 30, errorRatio: 0.006667 });
    expect(answer.rows).toMatchObject([
      { service: "api", role: "server", protocols: ["http", "grpc"], perSecond: 30, p95Us: 2_000, cpuCores: 0.5, points: [30, 50] },
      { service: "worker", role: "client", protocols: ["redis"], perSecond: 1, cpuCores: null },
      { service: "batch", role: null, protocols: [], perSecond: 0, p95Us: null, cpuCores: 1.9 },
    ]);
  });

  it.each([
    ["errors", ["api", "worker", "batch"]],
    ["p95", ["worker", "api", "batch"]],
    ["cpu", ["batch", "api", "worker"]],
  ])("sorts by %s", async (sort, expected) => {
    const answer = await call<TopResult>("coral_query_top", { sort }, { red, serviceCpu });
    expect(answer.rows.map((row) => row.service)).toEqual(expected);
  });

  it("truncates with a note", async () => {
    const answer = await call<TopResult>("coral_query_top", { limit: 1 }, { red, serviceCpu });
    expect(answer.rows).toHaveLength(1);
    expect(messages(answer)).toEqual(["1 of 3 services are shown; raise limit"]);
  });
});
