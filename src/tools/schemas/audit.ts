import * as z from "zod";
import type { AuditRecord } from "../../model/audit.ts";
import { isoTimeSchema } from "./agent.ts";

export const auditRecordSchema = z.object({
  id: z.string(),
  at: isoTimeSchema,
  agentId: z.string().nullable(),
  hostname: z.string().nullable(),
  kind: z.string().describe("exec, shell, run, capture, sql, approval, token, agent; chain, pruned, anchor"),
  phase: z.string().describe("asked, held, decided, denied, begun, ended, noted"),
  caller: z.string(),
  callerFrom: z.string(),
  through: z.string().describe("cli, mcp, http, llm"),
  questionId: z.string(),
  target: z.string(),
  place: z.string().describe("where it ran"),
  command: z.string().describe("redacted"),
  rule: z.string(),
  runAs: z.string(),
  reason: z.string().describe("how it ended, or why it was denied or failed"),
  exitCode: z.number().nullable(),
  stdoutBytes: z.number(),
  stderrBytes: z.number(),
  durationMs: z.number(),
  recording: z.string(),
}) satisfies z.ZodType<AuditRecord>;
export type AuditRecordFact = z.infer<typeof auditRecordSchema>;

/** Output of coral_list_audit. */
export const auditListSchema = z.object({ records: z.array(auditRecordSchema) });
export type AuditList = z.infer<typeof auditListSchema>;

/** One entry with its position in its hash chain. */
export const auditEntrySchema = auditRecordSchema.extend({
  entry: z.number(),
  hash: z.string(),
  previousHash: z.string(),
  /** JSON object. */
  details: z.string(),
});
export type AuditEntryFact = z.infer<typeof auditEntrySchema>;

/** Output of coral_get_audit. */
export const auditEntriesSchema = z.object({ id: z.string(), entries: z.array(auditEntrySchema) });
export type AuditEntries = z.infer<typeof auditEntriesSchema>;

/** One hash chain, verified from end to end. */
export const auditChainSchema = z.object({
  /** Null: the colony's own. */
  agentId: z.string().nullable(),
  hostname: z.string().nullable(),
  chainId: z.string(),
  where: z.enum(["colony", "agent"]).describe("which copy of the chain was walked"),
  entries: z.number(),
  firstEntry: z.number(),
  lastEntry: z.number(),
  head: z.string().describe("hash of the last entry"),
  problems: z.array(z.object({ kind: z.string(), entry: z.number(), message: z.string() })),
  moreProblems: z.number(),
});
export type AuditChain = z.infer<typeof auditChainSchema>;

/** Output of coral_verify_audit. */
export const auditVerificationSchema = z.object({
  isWhole: z.boolean(),
  chains: z.array(auditChainSchema),
  /** What could not be verified, and other notes. */
  notes: z.array(z.string()),
});
export type AuditVerification = z.infer<typeof auditVerificationSchema>;

/** A command that waits for approval. */
export const approvalInfoSchema = z.object({
  approvalId: z.string(),
  commandId: z.string(),
  agentId: z.string(),
  hostname: z.string(),
  kind: z.string(),
  caller: z.string(),
  target: z.string(),
  command: z.string().describe("redacted"),
  rule: z.string(),
  heldAt: isoTimeSchema,
  /** Null: unknown to the colony; the agent enforces the limit. */
  expiresAt: isoTimeSchema.nullable(),
});
export type ApprovalInfo = z.infer<typeof approvalInfoSchema>;

/** Output of coral_list_approvals. */
export const approvalListSchema = z.object({ approvals: z.array(approvalInfoSchema) });
export type ApprovalList = z.infer<typeof approvalListSchema>;

export interface ApprovalDecision {
  /** Id or a prefix of one. */
  approvalId: string;
  /** Only at this agent. */
  agentId?: string;
  isApproved: boolean;
  reason?: string;
}

export const approvalOutcomeSchema = z.object({
  approvalId: z.string(),
  agentId: z.string(),
  hostname: z.string(),
  isApproved: z.boolean(),
  /** Why the agent rejected the decision. */
  problem: z.string().nullable(),
});
export type ApprovalOutcome = z.infer<typeof approvalOutcomeSchema>;

/** Output of coral_decide_approval. */
export const approvalDecidedSchema = z.object({ outcomes: z.array(approvalOutcomeSchema) });
export type ApprovalDecided = z.infer<typeof approvalDecidedSchema>;

/** A position in a chain that was recorded elsewhere. */
export interface ExpectedLink {
  chainId: string;
  entry: number;
  /** SHA-256, hex. */
  hash: string;
}
