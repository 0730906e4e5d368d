/** Authentication: which agents may join, which clients may call, and how all others are refused. */

import { readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AgentDaemon, type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { coralJson, runCoral } from "../support/run-coral.ts";
import type { ProgramRun } from "../support/run-program.ts";
import { shiftedClock } from "../support/shifted-clock.ts";
import { makeTestHome, type TestHome } from "../support/test-home.ts";
import { changedToken } from "../support/tokens.ts";
import { waitFor } from "../support/wait-for.ts";

let home: TestHome;
let colony: ColonyDaemon;
let otherHome: TestHome;
let other: ColonyDaemon;
let agent: AgentDaemon;

/** Lifetime of certificates of `colony`: far longer than this file takes, even on a busy machine. */
const certificateTtlMs = 3_600_000;

beforeAll(async () => {
  home = makeTestHome();
  otherHome = makeTestHome();
  colony = await startColony({ home: home.path, config: `certificates:\n  agent_ttl: ${certificateTtlMs}ms\n` });
  agent = await startAgent({ home: home.path });
  other = await startColony({ home: otherHome.path });
  await agent.waitUntilConnected();
});
afterAll(async () => {
  for (const resource of [agent, colony, other, home, otherHome]) await resource[Symbol.asyncDispose]();
});

function createToken(of: ColonyDaemon, ...args: string[]): Promise<{ token: string; tokenId: string }> {
  return coralJson(["colony", "token", "create", ...args], { home: of.home });
}

/** Starts an agent in a new home and returns the error with which it is refused. */
async function refusal(options: { token?: string; args?: string[]; config?: string; env?: Record<string, string> }): Promise<string> {
  await using agentHome = makeTestHome();
  await using refused = await startAgent({ home: agentHome.path, ...options });
  const lastError = await waitFor("a refusal", async () => {
    const { colony: link } = await refused.status();
    return link.state === "refused" && link.lastError;
  });
  const { stdout } = await runCoral(["agent", "status"], { home: agentHome.path });
  expect(stdout).toContain("refused (");
  expect(stdout).toContain(lastError);
  return lastError;
}

describe("joining", () => {
  it("works once per token; afterwards the agent needs no token", async () => {
    await using agentHome = makeTestHome();
    const { token } = await createToken(other);
    {
      await using first = await startAgent({ home: agentHome.path, token });
      await first.waitUntilConnected();
    }
    {
      await using again = await startAgent({ home: agentHome.path });
      await again.waitUntilConnected();
      expect(await coralJson(["agent", "list"], { home: otherHome.path })).toMatchObject({
        total: 1,
        agents: [{ agentId: again.agentId }],
      });
    }
    expect(await refusal({ token })).toContain("Cannot accept the join token: the token has no uses left; create one with");
  });

  it("without a token fails with instructions", async () => {
    expect(await refusal({})).toBe(
      "Cannot join a colony: this agent has not joined one yet, and there is no join token; create one at the colony with `coral colony token create` and start the agent with --token",
    );
  });

  // Every other reason: src/colony/registry/token-store.test.ts and src/transport/tunnel/colony-client.test.ts.
  it("is refused with a revoked token", async () => {
    const { token, tokenId } = await createToken(other, "--uses", "9");
    expect((await runCoral(["colony", "token", "revoke", tokenId], { home: other.home })).code).toBe(0);
    expect(await refusal({ token })).toMatch(/Cannot accept the join token: the token was revoked/);
    const { stdout } = await runCoral(["colony", "token", "list"], { home: other.home });
    expect(stdout).toMatch(new RegExp(`${tokenId} +join +- +revoked +9`));
  });

  it("is refused if the token is for another CA or colony", async () => {
    const { token } = await createToken(other, "--uses", "9");
    expect(await refusal({ token: changedToken(token, () => ({ e: [colony.endpoint] })) })).toMatch(
      /Cannot trust the colony at ".*": .*another authority|fingerprint/,
    );
    expect(await refusal({ token, args: ["--colony-id", colony.colonyId] })).toBe(
      `Cannot join colony "${colony.colonyId}": the token is for colony "${other.colonyId}"`,
    );
  });

  it("keeps the token out of the log and the process list", async () => {
    await using agentHome = makeTestHome();
    const { token } = await createToken(other);
    const started = await runCoral(["agent", "start", "--daemon", "--port", "0", "--token", token], { home: agentHome.path });
    expect(started.code, started.stderr).toBe(0);
    try {
      const pid = /pid (\d+)/.exec(started.stdout)?.[1];
      expect(readFileSync(`/proc/${pid}/cmdline`, "utf8")).not.toContain("coral_join_");
      await waitFor("the agent to connect", async () => {
        const { colony: link } = await coralJson<{ colony: { state: string } }>(["agent", "status"], { home: agentHome.path });
        return link.state === "connected";
      });
      expect(readFileSync(join(agentHome.path, "agent/logs/agent.log"), "utf8")).not.toContain("coral_join_");
      expect(other.output).not.toContain("coral_join_");
    } finally {
      await runCoral(["agent", "stop"], { home: agentHome.path });
    }
  });
});

describe("certificates", () => {
  it("of another colony are refused, with the reason", async () => {
    await using agentHome = makeTestHome();
    const { token } = await createToken(other);
    await using joined = await startAgent({ home: agentHome.path, token });
    await joined.waitUntilConnected();
    await joined.stop();
    await using lost = await startAgent({ home: agentHome.path, config: `colony:\n  endpoint: ${colony.endpoint}\n` });
    const lastError = await waitFor("a refusal", async () => (await lost.status()).colony.lastError);
    expect(lastError).toContain(`it is colony "${colony.colonyId}", not "${other.colonyId}"`);
  });

  it("of a revoked agent are refused at once; the agent reports it, is listed as revoked, and cannot reconnect", async () => {
    await using agentHome = makeTestHome();
    const { token } = await createToken(other, "--uses", "2");
    await using revoked = await startAgent({ home: agentHome.path, token });
    await revoked.waitUntilConnected();
    const done = await runCoral(["agent", "revoke", revoked.agentId], { home: other.home });
    expect(done).toMatchObject({ code: 0, stderr: "" });
    await waitFor("the agent to be refused", async () => {
      const { colony: link } = await revoked.status();
      return link.state === "refused" && link.lastError?.includes(`the certificate of agent "${revoked.agentId}" is revoked`);
    });
    const list = await runCoral(["agent", "list"], { home: other.home });
    expect(list.stdout).toMatch(new RegExp(`${revoked.agentId} +revoked .* no `));
    const events = await runCoral(["events", "--kind", "agent-revoked"], { home: other.home });
    expect(events.stdout).toContain(revoked.agentId);
    const unknown = await runCoral(["agent", "revoke", "no-such-agent"], { home: other.home });
    expect(unknown.code).toBe(4);
    expect(unknown.stderr).toContain("no-such-agent");
  });

  it("that have expired are not used; without a token the agent reports it", async () => {
    await using agentHome = makeTestHome();
    const { token } = await createToken(colony);
    await using short = await startAgent({ home: agentHome.path, token });
    await short.waitUntilConnected();
    await short.stop();
    await using late = await startAgent({ home: agentHome.path, env: shiftedClock(2 * certificateTtlMs) });
    const lastError = await waitFor("a refusal", async () => (await late.status()).colony.lastError);
    expect(lastError).toMatch(/expired.*and there is no join token/);
  });
});

describe("remote clients", () => {
  let clientHome: TestHome;
  let token: string;
  beforeAll(async () => {
    clientHome = makeTestHome();
    token = (await createToken(other, "--kind", "user", "--note", "e2e")).token;
  });
  afterAll(() => clientHome[Symbol.asyncDispose]());
  const client = (args: string[], env: Record<string, string> = {}): Promise<ProgramRun> => runCoral(args, { home: clientHome.path, env });

  it("authenticate with a token and a pinned CA, by context or CORAL_TOKEN", async () => {
    const added = await runCoral(["config", "add-context", "prod", "--token", "-"], { home: clientHome.path, input: `${token}\n` });
    expect(added.stdout).toBe(`context prod added (colony ${other.colonyId} at ${other.endpoint})\n`);
    expect((await client(["status"])).stdout).toContain(other.colonyId);
    expect((await client(["query", "sql", "SELECT 1 AS one", "-o", "csv"], { CORAL_TOKEN: token })).stdout).toBe("one\n1\n");
    expect((await client(["status", "--colony", "prod", "-o", "json"])).code).toBe(0);
    // A colony with another CA is refused, although the token is valid.
    const file = join(clientHome.path, "config.yaml");
    const text = readFileSync(file, "utf8");
    writeFileSync(file, text.replace(/ca_fingerprint: \S+/, `ca_fingerprint: ${"a".repeat(64)}`));
    const { code, stderr } = await client(["status"]);
    writeFileSync(file, text);
    expect(code).toBe(3);
    expect(stderr).toMatch(/another authority|fingerprint/);
  });

  it("are limited to the permissions of the token", async () => {
    for (const args of [
      ["colony", "token", "create"],
      ["colony", "token", "list"],
      ["agent", "revoke", "x"],
    ]) {
      const { code, stderr } = await client(args);
      expect(code, args.join(" ")).toBe(3);
      expect(stderr).toContain('permission "admin" is required, and the token has "read"');
    }
    const { tools } = await coralJson<{ tools: { permission: string }[] }>(["tool", "list"], { home: clientHome.path });
    expect(new Set(tools.map((tool) => tool.permission))).toEqual(new Set(["read"]));
    const { token: admin } = await createToken(other, "--kind", "user", "--permission", "admin");
    expect((await client(["colony", "token", "list"], { CORAL_TOKEN: admin })).code).toBe(0);
    const stop = await client(["colony", "stop"]);
    expect(stop.code).toBe(64);
    expect(stop.stderr).toContain(`runs on another machine, at ${other.endpoint}`);
  });

  it("are refused with a wrong, foreign, revoked or join token", async () => {
    const { token: joinToken } = await createToken(other);
    const { token: foreign } = await createToken(colony, "--kind", "user");
    const { token: dead, tokenId } = await createToken(other, "--kind", "user");
    await runCoral(["colony", "token", "revoke", tokenId], { home: other.home });
    for (const [given, expected] of [
      [joinToken, /it is a join token, which lets agents join/],
      ["coral_user_", /it is truncated; copy the whole text/],
      [token.slice(0, -20), /it is truncated; copy the whole text/],
      [changedToken(token, () => ({ s: "A".repeat(43) })), /Cannot accept the user token: this colony has no such token/],
      [changedToken(foreign, () => ({ e: [other.endpoint] })), /another authority|fingerprint/],
      [dead, /Cannot accept the user token: the token was revoked; create one with `.*coral colony token create --kind user`/],
      [changedToken(token, () => ({ e: ["127.0.0.1:1"] })), /nothing is listening there/],
    ] as const) {
      const { code, stdout, stderr } = await client(["status"], { CORAL_TOKEN: given });
      expect(stderr).toMatch(expected);
      expect(stdout).toBe("");
      expect(code).toBeGreaterThan(0);
    }
  });

  it("plain HTTP on loopback serves health to all and tools with a token only, and refuses foreign web origins", async () => {
    const at = `http://${other.endpoint}`;
    for (const path of ["/healthz", "/readyz", "/metrics"]) expect((await fetch(at + path)).status, path).toBe(200);
    for (const [path, method] of [
      ["/v1/tools", "GET"],
      ["/v1/tools/coral_get_status", "POST"],
      ["/mcp", "POST"],
    ] as const) {
      const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
      const body = method === "POST" ? "{}" : null;
      const refused = await fetch(at + path, { method, headers, body });
      expect(refused.status, path).toBe(401);
      expect(await refused.text()).toContain("Authorization: Bearer");
      const page = await fetch(at + path, {
        method,
        headers: { ...headers, authorization: `Bearer ${token}`, origin: "https://example.com" },
        body,
      });
      expect(page.status, path).toBe(403);
    }
    const allowed = await fetch(`${at}/v1/tools`, { headers: { authorization: `Bearer ${token}` } });
    expect(allowed.status).toBe(200);
  });
});

describe("listeners", () => {
  /** `address:port` of every listening TCP socket of a process. */
  function listenersOf(pid: number): string[] {
    const inodes = new Set(
      readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
        try {
          return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
        } catch {
          // The descriptor was closed in the meantime.
          return [];
        }
      }),
    );
    return ["tcp", "tcp6"].flatMap((name) =>
      readFileSync(`/proc/net/${name}`, "utf8")
        .split("\n")
        .slice(1)
        .map((line) => line.trim().split(/\s+/))
        .filter((fields) => fields[3] === "0A" && inodes.has(fields[9] ?? ""))
        .map((fields) => fields[1] ?? ""),
    );
  }

  it("are on loopback only: one port of the colony; of the agent, also two for OTLP", () => {
    const onLoopback = expect.stringMatching(/^0100007F:/) as string;
    expect(listenersOf(colony.pid)).toEqual([onLoopback]);
    expect(listenersOf(agent.pid)).toEqual([onLoopback, onLoopback, onLoopback]);
  });

  it("on other addresses are opt-in and TLS only", async (context) => {
    const address = Object.values(networkInterfaces())
      .flat()
      .find((item) => item && !item.internal && item.family === "IPv4")?.address;
    context.skip(address === undefined, "needs an address besides loopback");
    await using openHome = makeTestHome();
    await using open = await startColony({ home: openHome.path, config: "listen: 0.0.0.0:0\n" });
    const at = `${address}:${open.port}`;
    const plain = await fetch(`http://${at}/healthz`);
    expect(plain.status).toBe(426);
    expect(await plain.text()).toContain("TLS");
    const { token } = await createToken(open, "--kind", "user");
    await using clientHome = makeTestHome();
    const env = { CORAL_TOKEN: changedToken(token, () => ({ e: [at] })) };
    const { stdout, stderr } = await runCoral(["status", "--json"], { home: clientHome.path, env });
    expect(JSON.parse(stdout), stderr).toMatchObject({ colony: { colonyId: open.colonyId } });
  });
});

describe("renewal", () => {
  it("happens automatically after two thirds of a certificate's lifetime, without a new join", async () => {
    await using agentHome = makeTestHome();
    const { token } = await createToken(colony);
    // The agent's clock reaches two thirds of the lifetime five seconds after it joins.
    const env = shiftedClock((certificateTtlMs * 2) / 3 - 5_000);
    await using renewed = await startAgent({ home: agentHome.path, token, env });
    await renewed.waitUntilConnected();
    const certificate = (): string => readFileSync(renewed.paths.certificateFile, "utf8");
    const first = certificate();
    await waitFor(
      "a new certificate",
      () => certificate() !== first || renewed.logLines().some((line) => line["message"] === "Renewed the certificate"),
      { timeoutMs: 120_000, details: () => renewed.lastLines() },
    );
    await renewed.waitUntilConnected();
    expect(renewed.output).not.toMatch(/refused|expired/);
    const { agents } = await coralJson<{ agents: { agentId: string; health: string }[] }>(["agent", "list"], { home: home.path });
    expect(agents.find((item) => item.agentId === renewed.agentId)?.health).toBe("healthy");
    const { events } = await coralJson<{ events: { kind: string }[] }>(["events", "--agent", renewed.agentId], { home: home.path });
    // Services on this machine may come and go, and the agent's clock is wrong on purpose.
    const kinds = events.map((event) => event.kind).filter((kind) => kind.startsWith("agent-") && kind !== "agent-clock-skew");
    expect(kinds).toEqual(["agent-joined"]);
  });
});
