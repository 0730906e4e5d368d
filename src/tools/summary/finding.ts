import type { SummaryFinding } from "../schemas/summary.ts";

export function finding(
  rule: string,
  severity: SummaryFinding["severity"],
  kind: SummaryFinding["kind"],
  subject: string,
  message: string,
  value: number,
  threshold: number,
  unit: SummaryFinding["unit"],
): SummaryFinding {
  return { rule, severity, kind, subject, message, value: Number(value.toPrecision(4)), threshold, unit };
}
