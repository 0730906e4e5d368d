import type { Invocation } from "../../run/invocation.ts";
import { showEndpoints } from "./endpoint-screen.ts";

/** `coral network egress`: the busiest dependency first. */
export async function run(invocation: Invocation): Promise<void> {
  await showEndpoints(invocation, {
    tool: "coral_get_egress",
    title: "EGRESS ENDPOINTS",
    one: "external dependency",
    many: "external dependencies",
    sort: (endpoints) => endpoints.sort((a, b) => b.connections - a.connections),
    empty: "No service has called anything outside",
  });
}
