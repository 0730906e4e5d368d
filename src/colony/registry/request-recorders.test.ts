import { beforeEach, describe, expect, it } from "vitest";
import { initialPidNamespace } from "../../model/runtime-facts.ts";
import { type RecordingAgent, RequestRecorders } from "./request-recorders.ts";

const agentOf = (agentId: string, more: Partial<RecordingAgent> = {}): RecordingAgent => ({
  agentId,
  bootId: "boot",
  pidNamespace: initialPidNamespace,
  clockDifferenceMs: 0,
  ...more,
});

let recorders: RequestRecorders;
const isCounted = (agentId: string, timeMs: number): boolean => recorders.countedBy(agentId)?.(timeMs) ?? true;

beforeEach(() => {
  recorders = new RequestRecorders();
});

describe("RequestRecorders", () => {
  it("counts requests of one of two agents with the same scope", () => {
    recorders.add(agentOf("b"), 1_000);
    recorders.add(agentOf("a"), 2_000);
    expect([isCounted("a", 5_000), isCounted("b", 5_000)]).toEqual([true, false]);
    // The first one counted until the second one connected.
    expect([isCounted("a", 1_500), isCounted("b", 1_500)]).toEqual([false, true]);
  });

  it("prefers the agent with the wider scope", () => {
    recorders.add(agentOf("z"), 1_000);
    recorders.add(agentOf("a", { pidNamespace: 4026532200 }), 2_000);
    recorders.add(agentOf("b", { pidNamespace: 4026532300 }), 2_000);
    expect(["z", "a", "b"].map((id) => isCounted(id, 5_000))).toEqual([true, false, false]);
  });

  it("counts all agents whose scopes do not overlap or are unknown", () => {
    recorders.add(agentOf("a", { pidNamespace: 4026532200 }), 1_000);
    recorders.add(agentOf("b", { pidNamespace: 4026532300 }), 1_000);
    recorders.add(agentOf("c", { bootId: "another" }), 1_000);
    recorders.add(agentOf("d", { bootId: "" }), 1_000);
    recorders.add(agentOf("e", { pidNamespace: 0 }), 1_000);
    for (const id of ["a", "b", "c", "d", "e"]) expect(recorders.countedBy(id)).toBeUndefined();
  });

  it("hands over when the recorder leaves, and back, without counting late rows twice", () => {
    recorders.add(agentOf("a"), 1_000);
    recorders.add(agentOf("b"), 1_000);
    recorders.remove("a", 10_000);
    recorders.add(agentOf("a"), 20_000);
    for (const [timeMs, counting] of [
      [500, "a"],
      [9_999, "a"],
      [10_000, "b"],
      [19_999, "b"],
      [20_000, "a"],
    ] as const) {
      expect(
        ["a", "b"].filter((id) => isCounted(id, timeMs)),
        `at ${timeMs}`,
      ).toEqual([counting]);
    }
  });

  it("changes nothing when an agent registers again with the same facts", () => {
    recorders.add(agentOf("a"), 1_000);
    recorders.add(agentOf("b"), 1_000);
    recorders.add(agentOf("a"), 5_000);
    expect([isCounted("a", 9_000), isCounted("b", 3_000), isCounted("b", 9_000)]).toEqual([true, false, false]);
  });

  it("uses the clock of each agent", () => {
    recorders.add(agentOf("a", { clockDifferenceMs: 60_000 }), 0);
    recorders.add(agentOf("b", { clockDifferenceMs: 60_000 }), 0);
    recorders.remove("a", 10_000);
    expect([isCounted("b", 65_000), isCounted("b", 70_000)]).toEqual([false, true]);
  });
});
