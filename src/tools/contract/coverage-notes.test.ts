import { describe, expect, it } from "vitest";
import { colonyTools } from "../colony-tools.ts";
import { agentOf, colonyOf, context } from "../sample-colony.fixture.ts";
import type { Answer } from "../schemas/completeness.ts";
import type { CoverageFacts } from "./backend.ts";
import { coverageNotes } from "./coverage-notes.ts";
import { findTool } from "./tool-list.ts";

const nowMs = Date.UTC(2026, 10, 18, 12, 30);
const minute = 60_000;
const day = 86_400_000;
const agents = ["web-1", "web-2", "web-3", "web-4", "web-5"].map((id) => agentOf(id, { hostname: id }));

const gap = (agentId: string, fromMin: number, untilMin: number, reason = "killed") => ({
  agentId,
  fromMs: nowMs - fromMin * minute,
  untilMs: nowMs - untilMin * minute,
  reason,
});

function notesOf(facts: Partial<CoverageFacts>, asked: { sinceMs?: number; kept?: string[]; agents?: typeof agents } = {}): string[] {
  const all = { unobserved: [], kept: [], nowMs, ...facts };
  return coverageNotes(all, { agents, kept: ["red"], sinceMs: 3_600_000, ...asked }).map(({ message }) => message);
}

describe("coverageNotes()", () => {
  it("are empty when the whole time was observed", () => {
    expect(notesOf({})).toEqual([]);
    expect(notesOf({ unobserved: [gap("web-1", 27, 21), gap("gone", 5, 1)] }, { sinceMs: 20 * minute })).toEqual([]);
  });

  it("state when and why a host was not observed", () => {
    expect(notesOf({ unobserved: [gap("web-1", 27, 21)] })).toEqual([
      "web-1 observed nothing from 12:03:00 to 12:09:00 UTC (6m): its agent was killed or crashed",
    ]);
    expect(notesOf({ unobserved: [gap("web-1", 3_000, 2_990, "suspended")] }, { sinceMs: 7 * day })).toEqual([
      "web-1 observed nothing from 2026-11-16 10:30:00 to 2026-11-16 10:40:00 UTC (10m): the host was suspended, or its clock was set forward",
    ]);
  });

  it("merge gaps of one host and count only the part within the requested time", () => {
    expect(notesOf({ unobserved: [gap("web-1", 10, 9, "stopped"), gap("web-1", 25, 19)] }, { sinceMs: 20 * minute })).toEqual([
      "web-1 observed nothing for 2m in 2 intervals, the last from 12:20:00 to 12:21:00 UTC: its agent was stopped",
    ]);
  });

  it("name three hosts and count the others", () => {
    const notes = notesOf({ unobserved: agents.map(({ agentId }, index) => gap(agentId, 20 + index, 10)) });
    expect(notes.map((note) => note.slice(0, 5))).toEqual(["web-5", "web-4", "web-3", "2 mor"]);
    expect(notes[3]).toContain("2 more hosts were not observed for a part of this time");
  });

  it("state when hosts joined within the requested time", () => {
    const joined = (hostname: string, minutes: number) =>
      agentOf(hostname, { hostname, firstSeenAt: new Date(nowMs - minutes * minute).toISOString() });
    expect(notesOf({}, { agents: [joined("web-1", 5), joined("web-2", 90)] })).toEqual([
      "web-1 joined at 12:25:00 UTC: no data before that",
    ]);
    expect(notesOf({}, { agents: [joined("web-1", 5), joined("web-2", 3)] })).toEqual([
      "web-2, web-1 joined within this time, the last at 12:27:00 UTC: no data before that",
    ]);
  });

  it("state when the oldest kept rows begin, if agents existed before", () => {
    const kept = [
      { signal: "red", sinceMs: nowMs - 2 * day },
      { signal: "log", sinceMs: nowMs - day },
    ];
    const note = "rows of red before 2026-11-16 12:30:00 UTC are no longer kept";
    expect(notesOf({ kept }, { sinceMs: 3 * day })).toEqual([note]);
    expect(notesOf({ kept }, { sinceMs: day })).toEqual([]);
    const young = agentOf("web-1", { firstSeenAt: new Date(nowMs - day).toISOString() });
    expect(notesOf({ kept }, { sinceMs: 3 * day, agents: [young] })).toEqual([expect.stringContaining("joined at")]);
  });
});

describe("tools that answer over a time", () => {
  it.each([
    ["coral_query_red", {}],
    ["coral_query_summary", {}],
    ["coral_query_connections", {}],
    ["coral_get_topology", {}],
    ["coral_query_traces", {}],
    ["coral_query_logs", {}],
    ["coral_query_metrics", {}],
    ["coral_query_host", {}],
    ["coral_list_events", {}],
    ["coral_query_deployments", {}],
  ])("%s notes unobserved time", async (name, input) => {
    const colony = colonyOf({ coverage: async () => ({ unobserved: [gap("web-1", 4, 3)], kept: [], nowMs }) });
    const answer = (await findTool(colonyTools, name, "debug").call(colony, input, context)) as Answer<unknown>;
    expect(answer.completeness.complete).toBe(false);
    expect(answer.completeness.notes).toContainEqual({
      kind: "unobserved",
      agent: "web-1",
      message: "web-1.example.org observed nothing from 12:26:00 to 12:27:00 UTC (1m): its agent was killed or crashed",
    });
  });
});
