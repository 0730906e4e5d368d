/**
 * CPU profiling: samples every processor, walks and names stacks, and counts samples by stack and window. Runs in a separate process,
 * because it reads untrusted files and may crash without harm. @module
 */

export {
  type ProfileCost,
  type ProfileOrder,
  type ProfileReport,
  type ProfileStack,
  type ProfileWindow,
} from "./core/messages.ts";
export { type ProfileChannel, runProfileProcess } from "./run-profile-process.ts";
export { type ProfileStatus, type ProfileSupervisor, type SuperviseProfilesOptions, superviseProfiles } from "./supervise-profiles.ts";
