/** The `registry` section: which agents a colony accepts. */

import * as z from "zod";
import { section, text } from "../schema/schema-parts.ts";

const day = {
  expression: /^(?:|\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?Z)?)$/,
  message: "write a date such as 2026-09-01, or leave it empty",
};

function date(description: string) {
  return text(description, day).refine((value) => value === "" || !Number.isNaN(Date.parse(value)), "no such date");
}

export const colonyRegistrySection = section({
  require_runtime_context: z
    .boolean({ error: "write true or false" })
    .meta({ kind: "true | false", description: "Reject agents that do not report their runtime environment and capabilities" })
    .prefault(false),
  warn_passive_sidecars: z
    .boolean({ error: "write true or false" })
    .meta({ kind: "true | false", description: "Warn about Kubernetes sidecars that cannot run commands" })
    .prefault(true),
  legacy_agent_policy: section({
    enabled: z
      .boolean({ error: "write true or false" })
      .meta({ kind: "true | false", description: "Warn about, then reject, agents with an old protocol, by the dates below" })
      .prefault(true),
    warn_after: date("Day from which the log warns about them; empty: always").prefault(""),
    reject_after: date("Day from which their registration is rejected; empty: never").prefault(""),
  }).superRefine((policy, context) => {
    const isOrdered =
      policy.warn_after === "" || policy.reject_after === "" || Date.parse(policy.warn_after) <= Date.parse(policy.reject_after);
    if (!isOrdered) context.addIssue({ code: "custom", path: ["reject_after"], message: "it must not be before warn_after" });
  }),
});

export interface LegacyPolicy {
  isEnabled: boolean;
  /** Milliseconds since 1970; null: always. */
  warnAfterMs: number | null;
  /** Null: never. */
  rejectAfterMs: number | null;
}

export interface ColonyRegistryConfig {
  requireRuntimeContext: boolean;
  warnPassiveSidecars: boolean;
  legacy: LegacyPolicy;
}

export function toColonyRegistry(file: z.output<typeof colonyRegistrySection>): ColonyRegistryConfig {
  const { enabled, warn_after: warnAfter, reject_after: rejectAfter } = file.legacy_agent_policy;
  return {
    requireRuntimeContext: file.require_runtime_context,
    warnPassiveSidecars: file.warn_passive_sidecars,
    legacy: {
      isEnabled: enabled,
      warnAfterMs: warnAfter === "" ? null : Date.parse(warnAfter),
      rejectAfterMs: rejectAfter === "" ? null : Date.parse(rejectAfter),
    },
  };
}
