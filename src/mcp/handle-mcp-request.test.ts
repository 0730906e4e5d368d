import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { handleMcpRequest } from "./handle-mcp-request.ts";
import { type SampleBackend, sampleTools } from "./sample-tools.fixture.ts";

const backend: SampleBackend = { calls: [] };
let server: Server;
let url: URL;

/** Serves requests like the colony's port. */
async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const abort = new AbortController();
  outgoing.on("close", () => abort.abort());
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  const headers = Object.entries(incoming.headers).map(([name, value]): [string, string] => [name, String(value)]);
  const request = new Request(url, {
    method: incoming.method ?? "GET",
    headers,
    signal: abort.signal,
    ...(body.length > 0 ? { body } : {}),
  });
  const response = await handleMcpRequest(request, {
    tools: sampleTools.filter((tool) => tool.permission === "read"),
    version: "1.2.3",
    call: (tool, input, signal) => tool.call(backend, input, { signal }),
  });
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.end(Buffer.from(await response.arrayBuffer()));
}

beforeAll(async () => {
  server = createServer((incoming, outgoing) => void answer(incoming, outgoing));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

beforeEach(() => {
  backend.calls = [];
});

const accept = "application/json, text/event-stream";

function post(body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", accept, ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}

describe.each(["legacy", "auto"] as const)("handleMcpRequest() with the official client, negotiating %s", (mode) => {
  async function connected(): Promise<Client> {
    const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
    await client.connect(new StreamableHTTPClientTransport(url));
    return client;
  }

  it("lists read-only tools, and calls one", async () => {
    const client = await connected();
    expect(client.getServerVersion()).toMatchObject({ name: "coral", version: "1.2.3" });
    expect(client.getInstructions()).toContain("coral_query_summary");
    const { tools } = await client.listTools();
    expect(tools.map((tool) => tool.name)).toEqual(["coral_echo_text", "coral_wait_forever"]);
    expect(tools[0]).toMatchObject({ annotations: { readOnlyHint: true }, inputSchema: { type: "object", required: ["text"] } });
    const result = await client.callTool({ name: "coral_echo_text", arguments: { text: "hello" } });
    expect(result.structuredContent).toEqual({ echoed: "hello", completeness: { complete: true, notes: [] } });
    expect(result.content).toEqual([{ type: "text", text: JSON.stringify(result.structuredContent) }]);
    await client.close();
  });

  it("returns failures and invalid input as tool errors that the model can read", async () => {
    const client = await connected();
    const failed = await client.callTool({ name: "coral_echo_text", arguments: { text: "fail" } });
    expect(failed).toMatchObject({ isError: true, content: [{ type: "text", text: 'Cannot find "fail": there is none' }] });
    const wrong = await client.callTool({ name: "coral_echo_text", arguments: { txt: "x" } });
    expect(wrong.isError).toBe(true);
    expect(JSON.stringify(wrong.content)).toContain("the fields are text, times");
    await expect(client.callTool({ name: "coral_change_world", arguments: {} })).rejects.toThrow("unknown tool");
    expect(backend.calls).toEqual(["fail"]);
    await client.close();
  });

  it("puts completeness notes first, and bounds the text", async () => {
    const client = await connected();
    const partly = await client.callTool({ name: "coral_echo_text", arguments: { text: "partly" } });
    expect(partly.content).toMatchObject([{ text: expect.stringMatching(/^Incomplete: web-1 is silent\n\{/) }]);
    const long = await client.callTool({ name: "coral_echo_text", arguments: { text: "x", times: 90_000 } });
    const [content] = long.content as { text: string }[];
    expect(content?.text.length).toBeLessThan(24_200);
    expect(content?.text).toMatch(/^Cut: echoed did not fit; narrow the request\n/);
    expect(JSON.stringify(long.structuredContent).length).toBeLessThan(24_000);
    await client.close();
  });

  it("aborts a call that the client cancels", async () => {
    const client = await connected();
    const abort = new AbortController();
    const call = client.callTool({ name: "coral_wait_forever", arguments: {} }, { signal: abort.signal });
    await vi.waitFor(() => expect(backend.calls).toEqual(["waiting"]));
    abort.abort();
    await expect(call).rejects.toThrow();
    // Without sessions, a cancellation in older versions cannot name its call: only closing the connection aborts it.
    if (mode === "auto") await vi.waitFor(() => expect(backend.calls).toEqual(["waiting", "cancelled"]));
    await client.close();
  });
});

describe("handleMcpRequest()", () => {
  it.each(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])("speaks protocol version %s", async (protocolVersion) => {
    const initialize = { method: "initialize", params: { protocolVersion, capabilities: {}, clientInfo: { name: "old", version: "1" } } };
    const opened = (await readAnswer(await post({ jsonrpc: "2.0", id: 1, ...initialize }))) as { result: { protocolVersion: string } };
    expect(opened.result.protocolVersion).toBe(protocolVersion);
    const headers = { "mcp-protocol-version": protocolVersion };
    const listed = (await readAnswer(await post({ jsonrpc: "2.0", id: 2, method: "tools/list" }, headers))) as {
      result: { tools: unknown[] };
    };
    expect(listed.result.tools).toHaveLength(2);
  });

  it("rejects GET and DELETE with 405", async () => {
    expect((await fetch(url, { headers: { accept } })).status).toBe(405);
    expect((await fetch(url, { method: "DELETE" })).status).toBe(405);
  });

  it.each([
    ["not JSON", "{", 400],
    ["not a request", "[1, 2]", 400],
    ["an empty body", "", 400],
    ["an oversized body", `{"jsonrpc":"2.0","id":1,"method":"${"x".repeat(1_100_000)}"}`, 413],
  ])("rejects %s", async (_name, body, status) => {
    const response = await post(body);
    expect(response.status).toBe(status);
    expect(backend.calls).toEqual([]);
  });
});

/** A JSON body or one event of a stream. */
async function readAnswer(response: Response): Promise<unknown> {
  const text = await response.text();
  const data = /^data: (.*)$/m.exec(text)?.[1];
  return JSON.parse(data ?? text);
}
