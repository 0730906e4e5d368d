/** MCP with the official client over stdio and HTTP, and the config blocks for assistants. */

import { spawnSync } from "node:child_process";
import { request } from "node:http";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { colonyPaths, listLocalColonies } from "../../src/config/index.ts";
import type { AuditList, AuditRecordFact } from "../../src/tools/index.ts";
import { type AgentDaemon, type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { coralFile, coralJson, runCoral } from "../support/run-coral.ts";
import { cleanEnvironment, makeTestHome, type TestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

let home: TestHome;
let colony: ColonyDaemon;
let agent: AgentDaemon;

beforeAll(async () => {
  home = makeTestHome();
  colony = await startColony({ home: home.path, config: "pull:\n  interval: 500ms\n" });
  // The agent's policy allows more than the read-only profile of MCP.
  agent = await startAgent({ home: home.path, config: "exec:\n  profile: full\n" });
  await waitFor("a sample", async () => Number((await colony.sql("SELECT count(*) AS n FROM host"))[0]?.["n"]) > 0);
});
afterAll(async () => {
  for (const resource of [agent, colony, home]) await resource[Symbol.asyncDispose]();
});

interface StdioCommand {
  command: string;
  args: string[];
  env?: Record<string, string>;
}

async function stdioClient({ command, args, env = {} }: StdioCommand): Promise<Client> {
  const client = new Client({ name: "e2e", version: "1" });
  await client.connect(new StdioClientTransport({ command, args, env: { ...cleanEnvironment("/nowhere"), ...env }, stderr: "ignore" }));
  return client;
}

const proxy = (...flags: string[]): StdioCommand => ({
  command: process.execPath,
  args: [coralFile, "mcp", "proxy", ...flags],
  env: { CORAL_HOME: home.path },
});

function textOf(result: { content?: unknown }): string {
  return (result.content as { type: string; text: string }[]).map((part) => part.text).join("\n");
}

/** Behaviour that both transports share. */
async function checkClient(client: Client): Promise<void> {
  const { tools } = await client.listTools();
  expect(tools.map((tool) => tool.name)).toEqual(
    expect.arrayContaining(["coral_get_status", "coral_search_tools", "coral_list_services", "coral_query_host", "coral_query_sql"]),
  );
  expect(JSON.stringify(tools).length / 4).toBeLessThan(3_000);
  const found = await client.callTool({ name: "coral_search_tools", arguments: { query: "list agents" } });
  expect(found.structuredContent).toMatchObject({
    tools: expect.arrayContaining([expect.objectContaining({ name: "coral_list_agents" })]),
  });
  const agents = await client.callTool({ name: "coral_call_tool", arguments: { name: "coral_list_agents", input: {} } });
  expect(agents.structuredContent).toMatchObject({ agents: [expect.objectContaining({ connected: true })] });
  for (const tool of tools) {
    expect(tool.description?.length, tool.name).toBeGreaterThan(20);
    expect(tool.inputSchema.type).toBe("object");
    expect(tool.annotations?.readOnlyHint, tool.name).toBe(true);
  }
  const status = await client.callTool({ name: "coral_get_status", arguments: {} });
  expect(status.isError ?? false).toBe(false);
  expect(status.structuredContent).toMatchObject({ colony: { colonyId: colony.colonyId }, completeness: { complete: true } });
  const sql = await client.callTool({ name: "coral_query_sql", arguments: { sql: "SELECT 41 + 1 AS answer" } });
  expect(textOf(sql)).toContain("42");
  const large = { sql: "SELECT unnest(range(900)) AS i, repeat('x', 100) AS text", maxRows: 900 };
  const first = await client.callTool({ name: "coral_query_sql", arguments: large });
  const { nextCursor: cursor } = first.structuredContent as { nextCursor: string };
  expect(JSON.stringify(first.structuredContent).length).toBeLessThan(24_000);
  const next = await client.callTool({ name: "coral_query_sql", arguments: { ...large, cursor } });
  expect((next.structuredContent as { rows: unknown[] }).rows.length).toBeGreaterThan(10);
  expect(JSON.stringify(next.structuredContent)).not.toContain('[0,"');
  const refused = await client.callTool({ name: "coral_query_sql", arguments: { sql: "SELECT * FROM '/etc/passwd'" } });
  expect(refused.isError).toBe(true);
  expect(textOf(refused)).toContain("is not a published view");
  const wrong = await client.callTool({ name: "coral_query_host", arguments: { since: "yesterday" } });
  expect(wrong.isError).toBe(true);
  expect(textOf(wrong)).toContain("write a number with a unit");
}

describe("coral mcp proxy", () => {
  it("serves the official client over stdio, and exits when the client disconnects", async () => {
    const client = await stdioClient(proxy());
    await checkClient(client);
    const { tools } = await client.listTools();
    expect(tools.map((tool) => tool.name)).not.toContain("coral_create_token");
    await client.close();
  });

  it("offers tools with side effects only when enabled", async () => {
    const client = await stdioClient(proxy("--allow-changes"));
    const { tools } = await client.listTools();
    expect(tools.find((tool) => tool.name === "coral_agent_exec")?.annotations).toMatchObject({ readOnlyHint: false });
    for (const name of ["coral_create_token", "coral_decide_approval", "coral_list_audit"])
      await expect(client.callTool({ name: "coral_call_tool", arguments: { name, input: {} } })).rejects.toThrow("unknown tool");
    await client.close();
  });

  it("starts without a colony, reports that, and works as soon as there is one", async () => {
    await using later = makeTestHome();
    const client = await stdioClient({ ...proxy(), env: { CORAL_HOME: later.path } });
    await client.listTools().catch(() => undefined);
    const refused = await client.callTool({ name: "coral_get_status", arguments: {} });
    expect(refused.isError).toBe(true);
    expect(textOf(refused)).toMatch(/Cannot find a colony: .*coral up/);
    await using started = await startColony({ home: later.path });
    const status = await client.callTool({ name: "coral_get_status", arguments: {} });
    expect(textOf(status)).toContain(started.colonyId);
    await client.close();
  });

  it("prints only protocol messages on stdout, even if stdin is not valid", () => {
    const { status, stdout } = spawnSync(process.execPath, [coralFile, "mcp", "proxy"], {
      env: cleanEnvironment(home.path),
      input: 'nonsense\n{"jsonrpc":"2.0"}\n[]\n\n',
      encoding: "utf8",
      timeout: 60_000,
    });
    expect(status).toBe(0);
    for (const line of stdout.split("\n").filter((text) => text !== "")) expect(JSON.parse(line)).toMatchObject({ jsonrpc: "2.0" });
  });
});

describe("/mcp on the colony", () => {
  it("serves the official client over streamable HTTP, with a token only", async () => {
    const { token } = await coralJson<{ token: string }>(["colony", "token", "create", "--kind", "user"], { home: home.path });
    const url = new URL(`http://${colony.endpoint}/mcp`);
    const client = new Client({ name: "e2e", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers: { authorization: `Bearer ${token}` } } }));
    await checkClient(client);
    await client.close();
    const anonymous = new Client({ name: "e2e", version: "1" });
    await expect(anonymous.connect(new StreamableHTTPClientTransport(url))).rejects.toThrow();
    await anonymous.close();
  });

  it("refuses web pages, even with a valid token", async () => {
    const [colonyId = ""] = await listLocalColonies(home.path);
    const { socketFile } = colonyPaths(home.path, colonyId);
    const statusFor = (origin: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const headers = { origin, "content-type": "application/json", accept: "application/json, text/event-stream" };
        const asked = request({ socketPath: socketFile, path: "/mcp", method: "POST", headers }, (response) => {
          response.resume();
          resolve(response.statusCode);
        });
        asked.on("error", reject);
        asked.end(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }));
      });
    expect(await statusFor("https://evil.example")).toBe(403);
    expect(await statusFor("null")).toBe(403);
    expect(await statusFor("http://localhost:3000")).not.toBe(403);
  });
});

describe("commands over MCP", () => {
  async function httpClient(permission: string): Promise<Client> {
    const create = ["colony", "token", "create", "--kind", "user", "--permission", permission];
    const { token } = await coralJson<{ token: string }>(create, { home: home.path });
    const client = new Client({ name: "e2e", version: "1" });
    const requestInit = { headers: { authorization: `Bearer ${token}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`http://${colony.endpoint}/mcp`), { requestInit }));
    return client;
  }
  const namesOf = async (client: Client): Promise<string[]> => (await client.listTools()).tools.map((tool) => tool.name);

  it("are offered to callers with exec permission", async () => {
    const clients = [
      await httpClient("exec"),
      await httpClient("read"),
      await stdioClient(proxy("--allow-changes")),
      await stdioClient(proxy()),
    ];
    const lists = await Promise.all(clients.map(namesOf));
    expect(lists.map((names) => names.includes("coral_agent_exec"))).toEqual([true, false, true, false]);
    const context = await clients[1]?.callTool({ name: "coral_get_runtime_context", arguments: {} });
    expect(context?.structuredContent).toMatchObject({ agents: [{ runtime: { capabilities: expect.any(Array) }, source: "agent" }] });
    const refused = await clients[1]?.callTool({ name: "coral_agent_exec", arguments: { all: true, command: "uptime" } }).catch(String);
    expect(JSON.stringify(refused)).toContain("unknown tool");
    for (const client of clients) await client.close();
  });

  it.each([
    ["HTTP", () => httpClient("exec"), /^token:/],
    ["stdio", () => stdioClient(proxy("--allow-changes")), /^local:/],
  ] as const)(
    "over %s obey the read-only profile by default, contact no other host, and are in the audit as a model's",
    async (_transport, open, who) => {
      const agentsEntries = async (): Promise<AuditRecordFact[]> => {
        const { records } = await coralJson<AuditList>(["audit", "list", "--since", "10m"], { home: home.path });
        return records.filter((record) => record.kind === "exec" && record.agentId !== null);
      };
      const known = new Set((await agentsEntries()).map(({ id }) => id));
      const client = await open();
      const exec = (args: Record<string, unknown>) => client.callTool({ name: "coral_agent_exec", arguments: { all: true, ...args } });
      const shown = await exec({ command: "df -h | head -n 2" });
      expect(shown.isError ?? false).toBe(false);
      expect(shown.structuredContent).toMatchObject({
        outcomes: [{ reason: "exited", exitCode: 0, rule: "profile diagnostics", stdout: expect.stringContaining("Filesystem") }],
      });
      const smuggled = await exec({ argv: ["sh", "-c", "touch /tmp/coral-mcp-smuggled"] });
      expect(smuggled.isError).toBe(true);
      expect(textOf(smuggled)).toContain("it is not in the diagnostics profile");
      const openly = await exec({ argv: ["sh", "-c", "echo written"], readOnly: false });
      expect(openly.structuredContent).toMatchObject({ outcomes: [{ rule: "profile full", stdout: "written\n" }] });
      const sent = await exec({ command: "curl -I https://coral-mcp.invalid/secret" });
      expect(textOf(sent)).toContain("exec.model_hosts");
      await client.close();

      let own: AuditRecordFact[] = [];
      await waitFor("the agent's entries", async () => {
        own = (await agentsEntries()).filter(({ id }) => !known.has(id));
        return own.filter(({ phase }) => phase === "ended" || phase === "denied").length === 4;
      });
      const recorded = own.map(({ command, phase, through, rule }) => ({ command, phase, through, rule }));
      expect(recorded).toEqual(
        expect.arrayContaining([
          { command: "df -h | head -n 2", phase: "ended", through: "mcp", rule: "profile diagnostics" },
          { command: expect.stringContaining("coral-mcp-smuggled"), phase: "denied", through: "mcp", rule: "profile diagnostics" },
          { command: expect.stringContaining("written"), phase: "ended", through: "mcp", rule: "profile full" },
        ]),
      );
      expect(own.every(({ caller, callerFrom }) => who.test(caller) && callerFrom !== "")).toBe(true);
    },
  );
});

describe("coral mcp config", () => {
  it.each([
    ["claude-desktop", "mcpServers"],
    ["cursor", "mcpServers"],
    ["vscode", "servers"],
  ])("%s: the JSON block starts a proxy that works", async (name, key) => {
    const { code, stdout, stderr } = await runCoral(["mcp", "config", name], { home: home.path });
    expect(code).toBe(0);
    expect(stderr).toContain("paste into");
    const block = JSON.parse(stdout) as Record<string, { coral: StdioCommand } | undefined>;
    const client = await stdioClient(block[key]?.coral ?? { command: "", args: [] });
    expect((await client.listTools()).tools.length).toBeGreaterThan(4);
    await client.close();
  });

  it("codex: TOML with the same argv; claude-code: a shell command", async () => {
    const toml = (await runCoral(["mcp", "config", "codex"], { home: home.path })).stdout;
    const read = (key: string): unknown => JSON.parse(new RegExp(`^${key} = (.*)$`, "m").exec(toml)?.[1] ?? "null");
    expect(toml).toMatch(/^\[mcp_servers\.coral\]\n/);
    expect(toml).toMatch(/^\[mcp_servers\.coral\.env\]\nCORAL_HOME = /m);
    const client = await stdioClient({
      command: read("command") as string,
      args: read("args") as string[],
      env: { CORAL_HOME: read("CORAL_HOME") as string },
    });
    expect((await client.listTools()).tools.length).toBeGreaterThan(4);
    await client.close();
    const command = (await runCoral(["mcp", "config", "claude-code"], { home: home.path })).stdout;
    expect(command).toBe(
      `claude mcp add coral --env CORAL_HOME=${home.path} -- ${process.execPath} ${coralFile} mcp proxy --colony test-dev\n`,
    );
  });
});
