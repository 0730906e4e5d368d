/** Opens the collector of CPU profiles. */

import { availableParallelism } from "node:os";
import { superviseProfiles } from "../profile/index.ts";
import type { AgentContext } from "./agent-context.ts";
import type { AgentData } from "./open-agent-data.ts";
import { ProfileCollector } from "./profile/profile-collector.ts";
import type { TrafficDirectory } from "./traffic/traffic-directory.ts";

/** Nothing is sampled before `reconfigure()`. */
export function openProfiles(context: AgentContext, store: AgentData["store"], directory: TrafficDirectory): ProfileCollector {
  return new ProfileCollector({
    store,
    directory,
    config: () => context.config.profiles,
    supervise: context.superviseProfiles ?? superviseProfiles,
    cores: availableParallelism(),
    clock: context.clock,
    log: context.log.child("profiles"),
  });
}
