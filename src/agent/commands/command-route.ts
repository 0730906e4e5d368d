/** Commands that are asked for on the agent's own socket: the same service that the tunnel has. */

import { type Route, type RoutedTarget, serveLocalCommand } from "../../transport/index.ts";
import type { ExecuteService } from "./execute-service.ts";

export function commandRoute(agent: RoutedTarget, commands: Pick<ExecuteService, "execute">): Route {
  return {
    kind: "frames",
    path: "/v1/commands",
    permission: "exec",
    handle: (frames, { principal, from }) =>
      serveLocalCommand(frames, {
        agent,
        caller: { name: principal?.name ?? "", from },
        execute: (requests, signal) => commands.execute(requests, signal),
      }),
  };
}
