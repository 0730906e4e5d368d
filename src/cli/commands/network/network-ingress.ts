import type { Invocation } from "../../run/invocation.ts";
import { showEndpoints } from "./endpoint-screen.ts";

/** `coral network ingress`: by service, the busiest caller first. */
export async function run(invocation: Invocation): Promise<void> {
  await showEndpoints(invocation, {
    tool: "coral_get_ingress",
    title: "INGRESS ENDPOINTS",
    one: "external source",
    many: "external sources",
    sort: (endpoints) => endpoints.sort((a, b) => a.service.localeCompare(b.service) || b.connections - a.connections),
    empty: "Nobody outside has called a service",
  });
}
