import type { DoctorCheck } from "../../cli/index.ts";
import { agentPaths, colonyPaths, listLocalColonies } from "../../config/index.ts";
import { type PidRecord, runningHolder } from "../daemon/pid-file.ts";

/** Running daemons of this home. A stopped daemon is not a problem. */
export async function checkDaemons(home: string): Promise<DoctorCheck[]> {
  const colonies = await listLocalColonies(home);
  const checks = colonies.map((id) => describeDaemon(`colony ${id}`, runningHolder(colonyPaths(home, id).pidFile)));
  return [...checks, describeDaemon("agent", runningHolder(agentPaths(home).pidFile))];
}

export function describeDaemon(name: string, holder: PidRecord | undefined): DoctorCheck {
  if (holder === undefined) return { area: "daemons", name, state: "ok", detail: "not running" };
  const endpoints = Object.values(holder.endpoints).join(", ");
  const detail = `running with pid ${holder.pid} since ${holder.startedAt}${endpoints === "" ? "" : `, listening on ${endpoints}`}`;
  return { area: "daemons", name, state: "ok", detail };
}
