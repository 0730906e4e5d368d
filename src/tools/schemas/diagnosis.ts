import * as z from "zod";

const time = z.iso.datetime();

const evidence = z.object({
  id: z.string().describe("opens with coral_evidence"),
  statement: z.string(),
});

const cause = z.object({
  service: z.string(),
  kind: z.string(),
  pointer: z.string().describe("route, SQL, operation, link, log pattern or metric"),
  confidence: z.number(),
  summary: z.string(),
  chain: z.array(z.string()).describe("calls from the entry to the cause"),
  evidence: z.array(evidence),
  change: z.string().nullable().describe("deployment, restart or other change just before"),
});

export const diagnosisSchema = z.object({
  verdict: z.enum(["issue", "no-issue", "not-enough-data"]),
  summary: z.string(),
  entry: z.string().nullable(),
  from: time.describe("start of the trouble, or of the time in question"),
  until: time,
  comparedWith: z.array(z.object({ from: time, until: time })),
  isOnsetFound: z.boolean(),
  isOver: z.boolean().describe("it ended at `until`"),
  causes: z.array(cause),
  ruledOut: z.array(z.object({ service: z.string(), reason: z.string() })),
  next: z.array(z.object({ command: z.string(), why: z.string() })),
});
export type DiagnosisResult = z.infer<typeof diagnosisSchema>;

export const evidenceSchema = z.object({
  id: z.string(),
  service: z.string(),
  kind: z.string(),
  pointer: z.string(),
  statement: z.string(),
  name: z.string(),
  unit: z.string(),
  usual: z.number(),
  now: z.number(),
  from: time,
  until: time,
  comparedWith: z.array(z.object({ from: time, until: time })),
  commands: z.array(z.string()),
});
export type EvidenceResult = z.infer<typeof evidenceSchema>;
