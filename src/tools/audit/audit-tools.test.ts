import { describe, expect, test } from "vitest";
import type { AuditRequest } from "../../model/audit.ts";
import { agentOf, colonyOf, context } from "../sample-colony.fixture.ts";
import type { AuditEntryFact } from "../schemas/audit.ts";
import { decideApproval, listApprovals } from "./approval-tools.ts";
import { getAudit, listAudit, verifyAudit } from "./audit-tools.ts";

const entry = { id: "abcd-1", at: "2026-01-01T00:00:00.000Z", agentId: null, hostname: null } as unknown as AuditEntryFact;
const texts = [
  "kind",
  "phase",
  "caller",
  "callerFrom",
  "through",
  "questionId",
  "target",
  "place",
  "command",
  "rule",
  "runAs",
  "reason",
  "recording",
];
const whole = {
  ...Object.fromEntries(texts.map((name) => [name, ""])),
  ...entry,
  exitCode: null,
  stdoutBytes: 0,
  stderrBytes: 0,
  durationMs: 0,
  entry: 1,
  hash: "",
  previousHash: "",
  details: "{}",
} as AuditEntryFact;

describe("audit tools", () => {
  test("need the permission admin, and listing approvals exec", () => {
    expect([listAudit, getAudit, verifyAudit, decideApproval].map(({ permission }) => permission)).toEqual(Array(4).fill("admin"));
    expect(listApprovals.permission).toBe("exec");
  });

  test("coral_list_audit passes the filters on, resolves the target to agents, and truncates the list", async () => {
    let asked: AuditRequest | undefined;
    const agents = async () => [agentOf("a1", { hostname: "web-1" }), agentOf("a2", { hostname: "db-1" })];
    const audit = async (request: AuditRequest) => {
      asked = request;
      return Array.from({ length: request.limit }, () => whole);
    };
    const input = { user: "ann", command: "ps", target: "WEB", agent: "db-1", since: "7d", outcome: "failed", limit: 2 };
    const answer = await listAudit.call(colonyOf({ agents, audit }), input, context);
    expect(asked).toEqual({
      sinceMs: 7 * 86_400_000,
      limit: 3,
      caller: "ann",
      command: "ps",
      target: "WEB",
      targetAgentIds: ["a1"],
      agentIds: ["a2"],
      outcome: "failed",
    });
    expect(answer["records"]).toHaveLength(2);
    expect(answer["completeness"]).toMatchObject({ complete: false });
  });

  test("coral_get_audit refuses an id that is unknown, ambiguous or too short", async () => {
    const found = (...ids: string[]) => colonyOf({ auditEntries: async () => ids.map((id) => ({ ...whole, id })) });
    await expect(getAudit.call(found(), { id: "abcd" }, context)).rejects.toMatchObject({ code: "not-found" });
    await expect(getAudit.call(found("abcd-1", "abcd-2"), { id: "abcd" }, context)).rejects.toMatchObject({ code: "invalid" });
    await expect(getAudit.call(found("abcd-1"), { id: "abc" }, context)).rejects.toMatchObject({ code: "invalid" });
    expect(await getAudit.call(found("abcd-1"), { id: "abcd" }, context)).toMatchObject({ id: "abcd-1" });
  });

  test("coral_verify_audit checks positions that were recorded elsewhere", async () => {
    let asked: unknown;
    const backend = colonyOf({
      verifyAudit: async (request) => {
        asked = request;
        return { isWhole: true, chains: [], notes: ["web-1 is not connected"] };
      },
    });
    const hash = "a".repeat(64);
    const answer = await verifyAudit.call(backend, { expect: [`chain-1:12:${hash}`] }, context);
    expect(asked).toEqual({ expected: [{ chainId: "chain-1", entry: 12, hash }] });
    expect(answer["completeness"]).toMatchObject({ notes: [{ message: "web-1 is not connected" }] });
    await expect(verifyAudit.call(backend, { expect: ["12"] }, context)).rejects.toMatchObject({ code: "invalid" });
  });

  test("coral_decide_approval names the agent by its id", async () => {
    let asked: unknown;
    const backend = colonyOf({
      agents: async () => [agentOf("a1", { hostname: "web-1" })],
      decideApproval: async (decision) => {
        asked = decision;
        return [];
      },
    });
    await decideApproval.call(backend, { id: "abcd", approve: false, agent: "web-1", reason: "no" }, context);
    expect(asked).toEqual({ approvalId: "abcd", isApproved: false, agentId: "a1", reason: "no" });
  });
});
