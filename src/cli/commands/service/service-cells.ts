/** Table cells about services, shared by several lists. */

import type { Service, ServiceCheck } from "../../../tools/index.ts";
import type { StyleName } from "../../output/style.ts";
import type { Cell } from "../../output/table.ts";

const checkStyles: Record<ServiceCheck["state"], StyleName> = { healthy: "green", unhealthy: "red", unknown: "dim" };

export function checkStyle(state: ServiceCheck["state"]): StyleName {
  // A newer daemon may report states that this CLI does not know.
  return checkStyles[state] ?? "yellow";
}

/** Result of a health check; a dash without a check. */
export function checkCell(state: ServiceCheck["state"] | null): Cell {
  return state === null ? null : { text: state, style: checkStyle(state) };
}

export function statusCell(status: Service["status"]): Cell {
  if (status === "managed") return { text: status, style: "green" };
  return status === "stale" ? { text: status, style: "dim" } : status;
}

const shortBuildLength = 12;

/** A prefix of a build id, long enough to distinguish builds. */
export function shortBuild(build: string | null | undefined): string | null {
  return build?.slice(0, shortBuildLength) ?? null;
}
