import { CoralError } from "../../../base/errors.ts";
import { version } from "../../../base/version.ts";
import { runMcpProxy } from "../../../mcp/index.ts";
import type { ToolListEntry } from "../../../tools/index.ts";
import { type ColonyConnection, connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";

/** `coral mcp proxy`: serves until the assistant closes stdin. Resolves the colony per call, so that it may start later or move. */
export async function run(invocation: Invocation): Promise<void> {
  const stop = new AbortController();
  const onStop = (): void => stop.abort();
  process.once("SIGINT", onStop).once("SIGTERM", onStop);
  const connect = (signal: AbortSignal): Promise<ColonyConnection> => connectColony({ ...invocation, io: { ...invocation.io, signal } });
  try {
    await runMcpProxy({
      version,
      listTools: async (signal) => {
        try {
          return (await (await connect(signal)).get<{ tools: ToolListEntry[] }>("/v1/tools")).tools;
        } catch (error) {
          throw asUnavailable(error);
        }
      },
      callTool: async (name, input, signal) => (await connect(signal)).callByName(name, input, "mcp"),
      stdin: process.stdin,
      stdout: process.stdout,
      signal: AbortSignal.any([invocation.io.signal, stop.signal]),
      allowChanges: invocation.options.flag("allow-changes"),
      onError: (error) => invocation.print.note(`mcp: ${error.message}`),
    });
  } finally {
    process.removeListener("SIGINT", onStop).removeListener("SIGTERM", onStop);
  }
}

/** Reports a missing colony like a stopped one: it may exist at the next call. */
function asUnavailable(error: unknown): CoralError {
  const problem = CoralError.from(error);
  return problem.code === "not-found" ? new CoralError({ code: "unavailable", message: problem.message, cause: problem }) : problem;
}
