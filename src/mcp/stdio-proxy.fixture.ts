/** Runs a proxy like `coral mcp proxy`, against the tools API at DAEMON_URL. */

import { CoralError } from "../base/errors.ts";
import type { ToolListEntry } from "../tools/index.ts";
import { runMcpProxy } from "./stdio-proxy.ts";

async function ask(path: string, init: RequestInit): Promise<Record<string, unknown>> {
  let response: Response;
  try {
    response = await fetch(`${process.env["DAEMON_URL"]}${path}`, init);
  } catch (error) {
    throw new CoralError({ code: "unavailable", message: "Cannot reach the colony: nothing listens", cause: error });
  }
  const body = (await response.json()) as Record<string, unknown>;
  if (response.ok) return body;
  const { code, message } = body["error"] as { code: "invalid"; message: string };
  throw new CoralError({ code, message });
}

const abort = new AbortController();
process.once("SIGTERM", () => abort.abort());
await runMcpProxy({
  version: "1.2.3",
  listTools: async (signal) => (await ask("/v1/tools", { signal }))["tools"] as ToolListEntry[],
  callTool: (name, input, signal) => ask(`/v1/tools/${name}`, { method: "POST", body: JSON.stringify(input), signal }),
  stdin: process.stdin,
  stdout: process.stdout,
  signal: abort.signal,
  allowChanges: process.env["ALLOW_CHANGES"] === "1",
  onError: (error) => process.stderr.write(`${error.message}\n`),
});
process.stderr.write("ended\n");
