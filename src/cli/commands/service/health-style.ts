import type { AgentHealth } from "../../../tools/index.ts";
import type { StyleName } from "../../output/style.ts";
import type { Cell } from "../../output/table.ts";
import { percent } from "../../output/values.ts";

const healthStyles: Record<AgentHealth, StyleName> = { healthy: "green", degraded: "yellow", unhealthy: "red" };

export function healthStyle(health: AgentHealth): StyleName {
  // A newer colony may report states that this CLI does not know.
  return healthStyles[health] ?? "yellow";
}

/** A healthy agent with a slow link is shown as slow. */
export function healthCell(health: AgentHealth, isSlow = false): Cell {
  if (health !== "unhealthy" && isSlow) return { text: "slow", style: "yellow" };
  return { text: health, style: healthStyle(health) };
}

/** Usage of a finite resource: yellow from 80 %, red from 95 %. */
export function usageCell(ratio: number | null | undefined, suffix = ""): Cell {
  const text = percent(ratio);
  if (text === null || ratio === null || ratio === undefined) return null;
  const shown = `${text}${suffix}`;
  if (ratio >= 0.95) return { text: shown, style: "red" };
  return ratio >= 0.8 ? { text: shown, style: "yellow" } : shown;
}
