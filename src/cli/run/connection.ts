/** Connects a command to a daemon: the colony of the context, or the agent of this CORAL_HOME. */

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";
import { agentPaths, type ColonyTarget, resolveColony } from "../../config/index.ts";
import type { ToolAnswer } from "../../tools/index.ts";
import { type CommandClient, type ControlTarget, openCommand, requestBytes, requestJson, requestLines } from "../../transport/index.ts";
import { homeOf, type Invocation } from "./invocation.ts";
import type { ToolInput, ToolName } from "./tool-command.ts";

/** Calls to one colony, over its unix socket or HTTPS. Each call is its own request; nothing stays open between them. */
export interface ColonyConnection {
  colonyId: string;
  /** Display name. */
  name: string;
  target: ControlTarget;
  /** Calls a tool. When the daemon is not running, the error names the command that starts it. */
  call<Name extends ToolName>(tool: Name, input: ToolInput<Name>): Promise<ToolAnswer<Name>>;
  /** Calls a tool whose types the CLI does not know. */
  callByName(tool: string, input: Record<string, unknown>, client?: "cli" | "mcp"): Promise<Record<string, unknown>>;
  get<Reply>(path: string): Promise<Reply>;
  /** Streams a reply of one JSON value per line; `signal` cancels. */
  stream<Line>(path: string, body: unknown, signal: AbortSignal): AsyncGenerator<Line>;
  /** Streams a reply of bytes; `signal` cancels. */
  bytes(path: string, body: unknown, signal: AbortSignal): AsyncGenerator<Uint8Array>;
  /** Connects to run one command. */
  openCommand(): Promise<CommandClient>;
}

/** Prefers the local unix socket; CORAL_TOKEN overrides every context. */
export async function connectColony(invocation: Invocation): Promise<ColonyConnection> {
  const { env } = invocation.io;
  const token = env["CORAL_TOKEN"];
  if (token !== undefined && token !== "") {
    const { tokenTarget } = await import("./token-target.ts");
    const { colonyId, target } = tokenTarget(token);
    return connectionOf(invocation, target, colonyId, undefined);
  }
  const colony = await resolveWithHint(invocation);
  return connectionOf(invocation, await controlTargetOf(colony), colony.colonyId, colony.contextName);
}

/** `GET` on the agent's own socket. */
export function askAgent<Reply>(invocation: Invocation, path: string): Promise<Reply> {
  return callAgent(invocation, { method: "GET", path });
}

/** Calls the agent's own socket. When the agent is not running, the error names the command that starts it. */
export async function callAgent<Reply>(
  invocation: Invocation,
  request: { method: "GET" | "POST" | "DELETE"; path: string; body?: unknown },
): Promise<Reply> {
  const { signal } = invocation.io;
  return await onAgentSocket(invocation, async (target) => (await requestJson({ target, ...request, signal })) as Reply);
}

/** Connects to the agent's own socket to run one command. */
export function openAgentCommand(invocation: Invocation): Promise<CommandClient> {
  return onAgentSocket(invocation, (target) => openCommand({ target, signal: invocation.io.signal }));
}

/** The socket checks the peer's uid, so no token is needed. Another user gets `not-permitted`. */
async function onAgentSocket<Reply>(invocation: Invocation, request: (target: ControlTarget) => Promise<Reply>): Promise<Reply> {
  const home = homeOf(invocation);
  try {
    return await request({ kind: "unix", path: agentPaths(home).socketFile });
  } catch (error) {
    if (!isNotRunning(error)) throw error;
    throw new CoralError({
      code: "unavailable",
      message: `Cannot reach the agent: none is running for CORAL_HOME ${home}; start it with "coral agent start", or everything at once with "coral up"`,
      cause: error,
    });
  }
}

async function resolveWithHint(invocation: Invocation): Promise<ColonyTarget> {
  const home = homeOf(invocation);
  try {
    return await resolveColony(home, invocation.colony);
  } catch (error) {
    // On a host with only an agent, point to the agent's own status.
    if (error instanceof CoralError && error.code === "not-found" && existsSync(agentPaths(home).socketFile)) {
      throw new CoralError({
        code: error.code,
        message: `${error.message}; this machine runs an agent, see "coral agent status"`,
        cause: error,
      });
    }
    throw error;
  }
}

/**
 * A local colony is authenticated by the uid of its socket. A remote one is identified by the fingerprint of its CA, not by host name,
 * and gets the user token of the context.
 */
async function controlTargetOf(colony: ColonyTarget): Promise<ControlTarget> {
  if (colony.kind === "local") return { kind: "unix", path: colony.socketFile };
  const { contextName, endpoint, caFingerprint, tokenFile } = colony;
  const again = `add it again with "coral config add-context ${contextName} --token <token>"`;
  if (caFingerprint === undefined || tokenFile === undefined) {
    throw new CoralError({
      code: "unauthenticated",
      message: `Cannot call colony "${contextName}": the context lacks a CA fingerprint or a token file; ${again}`,
    });
  }
  try {
    return { kind: "https", endpoint, caFingerprint, token: (await readFile(tokenFile, "utf8")).trim(), colonyId: colony.colonyId };
  } catch (error) {
    throw new CoralError({
      code: "unauthenticated",
      message: `Cannot read token file "${tokenFile}" of context "${contextName}"; ${again}`,
      cause: error,
    });
  }
}

function connectionOf(invocation: Invocation, target: ControlTarget, colonyId: string, contextName: string | undefined): ColonyConnection {
  const name = contextName ?? colonyId;
  const { signal } = invocation.io;
  const request = async (method: "GET" | "POST", path: string, body?: unknown, client: "cli" | "mcp" = "cli"): Promise<unknown> => {
    try {
      return await requestJson({ target, method, path, client, signal, ...(body === undefined ? {} : { body }) });
    } catch (error) {
      throw notRunningError(error, target, name);
    }
  };
  return {
    colonyId,
    name,
    target,
    call: <Name extends ToolName>(tool: Name, input: ToolInput<Name>) =>
      request("POST", `/v1/tools/${tool}`, input) as Promise<ToolAnswer<Name>>,
    callByName: (tool, input, client) => request("POST", `/v1/tools/${tool}`, input, client) as Promise<Record<string, unknown>>,
    get: <Reply>(path: string) => request("GET", path) as Promise<Reply>,
    stream: async function* <Line>(path: string, body: unknown, ended: AbortSignal) {
      try {
        yield* requestLines({
          target,
          method: "POST",
          path,
          body,
          signal: AbortSignal.any([signal, ended]),
        }) as AsyncGenerator<Line>;
      } catch (error) {
        throw notRunningError(error, target, name);
      }
    },
    bytes: async function* (path: string, body: unknown, ended: AbortSignal) {
      try {
        yield* requestBytes({ target, method: "POST", path, body, signal: AbortSignal.any([signal, ended]) });
      } catch (error) {
        throw notRunningError(error, target, name);
      }
    },
    openCommand: async () => {
      try {
        return await openCommand({ target, signal });
      } catch (error) {
        throw notRunningError(error, target, name);
      }
    },
  };
}

/** Adds the start command to errors about a daemon that is not running; rethrows other errors. */
function notRunningError(error: unknown, target: ControlTarget, name: string): unknown {
  if (!isNotRunning(error)) return error;
  if (target.kind === "https") {
    return new CoralError({
      code: "unavailable",
      message: `Cannot reach colony "${name}" at ${target.endpoint}: no response; check that it is running and that the address is right`,
      cause: error,
    });
  }
  return new CoralError({
    code: "unavailable",
    message: `Cannot reach colony "${name}": it is not running; start it with "coral colony start --colony ${name}", or everything at once with "coral up"`,
    cause: error,
  });
}

/** ENOENT or ECONNREFUSED: no socket, or one that a killed daemon left behind. */
function isNotRunning(error: unknown): boolean {
  return error instanceof CoralError && error.code === "unavailable" && error.details["reason"] === "not-running";
}
