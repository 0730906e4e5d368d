import { readFile } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";
import { type AgentConfig, resolveColony } from "../../config/index.ts";
import { parseToken, requestJson } from "../../transport/index.ts";

export interface TokenSourceOptions {
  home: string;
  config: AgentConfig;
  /** From --token. */
  token?: string;
}

/**
 * The join token of an agent that has not joined: from --token, CORAL_JOIN_TOKEN, the configured file, or, over its socket, a local colony of the same
 * user. Undefined without any of them. Throws `usage` for a malformed --token or CORAL_JOIN_TOKEN.
 */
export function createTokenSource({ home, config, token }: TokenSourceOptions): () => Promise<string | undefined> {
  const given = token ?? (process.env["CORAL_JOIN_TOKEN"] || undefined);
  // A truncated token or one of the wrong kind is a usage error: report it before anything starts.
  if (given !== undefined) parseToken(given, "join");
  return async () => {
    if (given !== undefined) return given;
    if (config.colony.tokenFile !== undefined) return readTokenFile(config.colony.tokenFile);
    return requestLocalToken(home, config.colony.id);
  };
}

async function readTokenFile(file: string): Promise<string> {
  try {
    return (await readFile(file, "utf8")).trim();
  } catch (error) {
    throw new CoralError({
      code: "unauthenticated",
      message: `Cannot read the join token in "${file}": ${CoralError.from(error).message}`,
      cause: error,
    });
  }
}

async function requestLocalToken(home: string, colonyId: string | undefined): Promise<string | undefined> {
  const target = await resolveColony(home, colonyId).catch((error: unknown) => {
    // No colony here, or several: the caller reports the missing token.
    if (CoralError.from(error).code === "not-found" || CoralError.from(error).code === "usage") return undefined;
    throw error;
  });
  if (target?.kind !== "local") return undefined;
  const created = await requestJson({
    target: { kind: "unix", path: target.socketFile },
    method: "POST",
    path: "/v1/tools/coral_create_token",
    body: { kind: "join", name: "local agent", validFor: "10m", uses: 1 },
    timeoutMs: 5_000,
  });
  return typeof created === "object" && created !== null && "token" in created && typeof created.token === "string"
    ? created.token
    : undefined;
}
