import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { CoralError, httpStatusOf } from "../base/errors.ts";
import { findTool, listTools } from "../tools/index.ts";
import { type SampleBackend, sampleTools } from "./sample-tools.fixture.ts";

let directory: string;
let script: string;
let daemon: Server;
let port = 0;
const backend: SampleBackend = { calls: [] };

/** Fakes the part of a daemon's HTTP API that the proxy uses. */
async function startDaemon(): Promise<void> {
  daemon = createServer((request, response) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const reply = (status: number, body: unknown): void => void response.writeHead(status).end(JSON.stringify(body));
      try {
        if (request.url === "/v1/tools") return reply(200, { tools: listTools(sampleTools, "admin") });
        const tool = findTool(sampleTools, request.url?.split("/").at(-1) ?? "", "admin");
        return reply(200, await tool.call(backend, JSON.parse(Buffer.concat(chunks).toString()), { signal: new AbortController().signal }));
      } catch (error) {
        const { code, message } = CoralError.from(error);
        return reply(httpStatusOf(code), { error: { code, message } });
      }
    })();
  });
  await new Promise<void>((resolve) => daemon.listen(port, "127.0.0.1", resolve));
  port = (daemon.address() as AddressInfo).port;
}

async function stopDaemon(): Promise<void> {
  daemon.closeAllConnections();
  await new Promise((resolve) => daemon.close(resolve));
}

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "coral-mcp-"));
  script = join(directory, "proxy.mjs");
  const source = join(import.meta.dirname, "stdio-proxy.fixture.ts");
  const options = ["--bundle", "--platform=node", "--format=esm", "--target=node20", "--log-level=error"];
  execFileSync(join(import.meta.dirname, "../../node_modules/.bin/esbuild"), [source, `--outfile=${script}`, ...options]);
});

afterAll(() => rmSync(directory, { recursive: true }));

beforeEach(async () => {
  backend.calls = [];
  await startDaemon();
});

afterEach(stopDaemon);

const environment = (extra: Record<string, string> = {}) => ({ DAEMON_URL: `http://127.0.0.1:${port}`, ...extra });

async function connected(mode: "legacy" | "auto", extra: Record<string, string> = {}): Promise<Client> {
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(new StdioClientTransport({ command: process.execPath, args: [script], env: environment(extra), stderr: "ignore" }));
  return client;
}

describe("runMcpProxy()", () => {
  it.each(["legacy", "auto"] as const)("serves the official client, negotiating %s", async (mode) => {
    const client = await connected(mode);
    const { tools } = await client.listTools();
    expect(tools.map((tool) => tool.name)).toEqual(["coral_echo_text", "coral_wait_forever"]);
    const result = await client.callTool({ name: "coral_echo_text", arguments: { text: "hello" } });
    expect(result.structuredContent).toMatchObject({ echoed: "hello" });
    const wrong = await client.callTool({ name: "coral_echo_text", arguments: { text: "" } });
    expect(wrong).toMatchObject({ isError: true, content: [{ text: expect.stringContaining('"text" must be at least 1 characters') }] });
    await client.close();
  });

  it("offers tools that make changes only with --allow-changes", async () => {
    const client = await connected("legacy");
    await expect(client.callTool({ name: "coral_change_world", arguments: {} })).rejects.toThrow("unknown tool");
    await client.close();
    const more = await connected("legacy", { ALLOW_CHANGES: "1" });
    await more.callTool({ name: "coral_change_world", arguments: {} });
    expect(backend.calls).toEqual(["changed"]);
    await more.close();
  });

  it("responds while the daemon is not running, and recovers when it returns", async () => {
    await stopDaemon();
    const client = await connected("legacy");
    const { tools } = await client.listTools();
    expect(tools.map((tool) => tool.name)).toContain("coral_get_status");
    expect(tools.map((tool) => tool.name)).not.toContain("coral_create_token");
    const away = await client.callTool({ name: "coral_get_status", arguments: {} });
    expect(away).toMatchObject({ isError: true, content: [{ text: expect.stringContaining("start the colony with coral up") }] });
    await startDaemon();
    const back = await client.callTool({ name: "coral_echo_text", arguments: { text: "again" } });
    expect(back.structuredContent).toMatchObject({ echoed: "again" });
    await client.close();
  });

  it("writes only protocol messages to stdout, and exits when stdin closes", async () => {
    const child = spawn(process.execPath, [script], { env: { ...process.env, ...environment() }, stdio: "pipe" });
    const output: string[] = [];
    const errors: string[] = [];
    child.stdout.setEncoding("utf8").on("data", (text: string) => output.push(text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => errors.push(text));
    const params = { protocolVersion: "2024-11-05", capabilities: {}, clientInfo: { name: "old", version: "1" } };
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params })}\n`);
    child.stdin.write("this is not JSON\n");
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
    const call = { jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "coral_echo_text", arguments: { text: "fail" } } };
    child.stdin.write(`${JSON.stringify(call)}\n`);
    await expect.poll(() => output.join(""), { timeout: 10_000 }).toContain('"id":2');
    child.stdin.end();
    const code = await new Promise((resolve) => child.once("exit", resolve));
    expect(code).toBe(0);
    const messages = output
      .join("")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { jsonrpc: string; id?: number });
    expect(messages.map((message) => message.jsonrpc)).toEqual(messages.map(() => "2.0"));
    expect(messages.map((message) => message.id)).toEqual(expect.arrayContaining([1, 2]));
    expect(errors.join("")).toContain("ended");
  });
});
