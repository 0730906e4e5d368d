import { expect, it } from "vitest";
import { attentionOf } from "./attention.ts";

it("calls a host saturated by its last minute, not by one sample", () => {
  const hosts = [
    { agentId: "a", cpuBusyMinuteRatio: null, memUsedRatio: 0.2 },
    { agentId: "b", cpuBusyMinuteRatio: 0.97, memUsedRatio: 0.2 },
  ];
  expect(attentionOf([], hosts, (agentId) => `host-${agentId}`)).toEqual([
    { kind: "host", subject: "host-b", severity: "degraded", reason: "CPUs are busy 97% of the time" },
  ]);
});
