import type { Invocation } from "../../run/invocation.ts";
import { decideApproval } from "./decide-approval.ts";

/** `coral approval approve <id>`. */
export function run(invocation: Invocation): Promise<void> {
  return decideApproval(invocation, true);
}
