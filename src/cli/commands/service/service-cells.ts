/** Cells about services that several lists share. */

import type { Service, ServiceCheck } from "../../../tools/index.ts";
import type { StyleName } from "../../output/style.ts";
import type { Cell } from "../../output/table.ts";

const checkStyles: Record<ServiceCheck["state"], StyleName> = { healthy: "green", unhealthy: "red", unknown: "dim" };

export function checkStyle(state: ServiceCheck["state"]): StyleName {
  // A newer daemon may know states that this CLI does not.
  return checkStyles[state] ?? "yellow";
}

/** The answer of a health check; a dash for services that are not checked. */
export function checkCell(state: ServiceCheck["state"] | null): Cell {
  return state === null ? null : { text: state, style: checkStyle(state) };
}

export function statusCell(status: Service["status"]): Cell {
  if (status === "managed") return { text: status, style: "green" };
  return status === "stale" ? { text: status, style: "dim" } : status;
}

const shortBuildLength = 12;

/** The first digits of a build, enough to distinguish two. */
export function shortBuild(build: string | null | undefined): string | null {
  return build?.slice(0, shortBuildLength) ?? null;
}
