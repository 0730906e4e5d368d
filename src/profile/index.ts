/**
 * Where CPU time goes: samples of every processor, their stacks walked and named, counted by stack and window. A process of its own, which
 * reads what others wrote and may fail without harm.
 * @module
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
