import { request as httpRequest } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import { Client, credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ByteBudget } from "../../base/byte-budget.ts";
import { silentLogger } from "../../base/log.ts";
import { createOtlpClient } from "./otlp-client.ts";
import { timeoutMsOf } from "./otlp-grpc-server.ts";
import type { OtlpExport, OtlpServerReply } from "./otlp-messages.ts";
import { type OtlpServers, type OtlpServersOptions, startOtlpServers } from "./otlp-servers.ts";

const traceMethod = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const limits = { maxBodyBytes: 100_000, maxConnections: 8, maxStreams: 4, bodyTimeoutMs: 1_000, idleTimeoutMs: 60_000 };

let servers: OtlpServers;
let budget: ByteBudget;
let seen: OtlpExport[];
let respond: (request: OtlpExport) => OtlpServerReply | Promise<OtlpServerReply>;

async function start(over: Partial<OtlpServersOptions> = {}): Promise<void> {
  const address = { host: "127.0.0.1", port: 0, portSearch: 0 };
  budget = over.budget ?? new ByteBudget(1_000_000);
  seen = [];
  respond = () => ({ kind: "accepted", rejected: 0, message: "" });
  servers = await startOtlpServers({
    grpc: address,
    http: address,
    handler: async (request) => {
      seen.push({ ...request, body: Buffer.from(request.body) });
      return respond(request);
    },
    limits,
    budget,
    log: silentLogger,
    ...over,
  });
}

beforeEach(() => start());
afterEach(() => servers[Symbol.asyncDispose]());

const accepted = { kind: "accepted", rejected: 0, message: "" } as const;

describe("the gRPC server", () => {
  let client: Client;
  beforeEach(() => {
    client = new Client(`127.0.0.1:${servers.grpc?.port}`, credentials.createInsecure(), { "grpc.enable_retries": 0 });
  });
  afterEach(() => client.close());

  function call(body: Buffer, options: { method?: string; metadata?: Metadata; deadlineMs?: number } = {}) {
    return new Promise<{ reply: Buffer | undefined; error: ServiceError | null }>((resolve) => {
      client.makeUnaryRequest(
        options.method ?? traceMethod,
        (value: Buffer) => value,
        (value: Buffer) => value,
        body,
        options.metadata ?? new Metadata(),
        options.deadlineMs === undefined ? {} : { deadline: Date.now() + options.deadlineMs },
        (error, reply) => resolve({ reply, error }),
      );
    });
  }

  it.each([
    [traceMethod, "traces"],
    ["/opentelemetry.proto.collector.logs.v1.LogsService/Export", "logs"],
    ["/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", "metrics"],
  ])("accepts %s", async (method, signal) => {
    const { reply, error } = await call(Buffer.from("body"), { method });
    expect(error).toBeNull();
    expect(reply).toHaveLength(0);
    expect(seen).toEqual([{ signal, format: "protobuf", encoding: "identity", body: Buffer.from("body") }]);
    expect(budget.usedBytes).toBe(0);
  });

  it("accepts bodies of many frames, and many concurrent calls", async () => {
    const bodies = Array.from({ length: 30 }, (_, index) => Buffer.alloc(90_000 - index, index));
    const results = await Promise.all(bodies.map((body) => call(body)));
    expect(results.every(({ error }) => error === null)).toBe(true);
    expect(seen.map(({ body }) => body.length).sort()).toEqual(bodies.map(({ length }) => length).sort());
    expect(budget.usedBytes).toBe(0);
  });

  it("accepts an empty message", async () => {
    expect((await call(Buffer.alloc(0))).error).toBeNull();
    expect(seen[0]?.body).toHaveLength(0);
  });

  it.each([
    ["gzip", 2],
    ["deflate", 1],
  ])("passes messages compressed with %s on unchanged", async (encoding, algorithm) => {
    client.close();
    const options = { "grpc.default_compression_algorithm": algorithm };
    client = new Client(`127.0.0.1:${servers.grpc?.port}`, credentials.createInsecure(), options);
    expect((await call(Buffer.alloc(5_000, "a"))).error).toBeNull();
    expect(seen[0]?.encoding).toBe(encoding);
    expect(seen[0]?.body.length).toBeLessThan(200);
  });

  it("reports a partial success", async () => {
    respond = () => ({ kind: "accepted", rejected: 300, message: "no ids" });
    const { reply } = await call(Buffer.from("x"));
    expect(reply?.toString("hex")).toBe("0a0b08ac0212066e6f20696473");
  });

  it.each<[OtlpServerReply, number, boolean]>([
    [{ kind: "refused", reason: "malformed", message: "Cannot read: 100 % wrong, ümläut" }, status.INVALID_ARGUMENT, false],
    [{ kind: "refused", reason: "too-large", message: "big" }, status.RESOURCE_EXHAUSTED, false],
    [{ kind: "refused", reason: "busy", message: "busy", retryAfterMs: 1_500 }, status.RESOURCE_EXHAUSTED, true],
    [{ kind: "refused", reason: "unavailable", message: "disk", retryAfterMs: 5_000 }, status.UNAVAILABLE, true],
  ])("replies to %j with a status", async (refusal, code, mayRetry) => {
    respond = () => refusal;
    const { error } = await call(Buffer.from("x"));
    expect(error).toMatchObject({ code, details: refusal.message });
    const [details] = error?.metadata.get("grpc-status-details-bin") ?? [];
    expect(details !== undefined).toBe(mayRetry);
    if (mayRetry) expect(details?.toString()).toContain("type.googleapis.com/google.rpc.RetryInfo");
  });

  it("rejects other methods and other compressions", async () => {
    expect((await call(Buffer.from("x"), { method: "/a.B/C" })).error?.code).toBe(status.UNIMPLEMENTED);
    const metadata = new Metadata();
    expect((await raw({ "grpc-encoding": "snappy" }, frame("x")))["grpc-status"]).toBe("12");
    expect(metadata.getMap()).toEqual({});
  });

  it("refuses a message that is too large before it has arrived", async () => {
    const { error } = await call(Buffer.alloc(100_001));
    expect(error?.code).toBe(status.RESOURCE_EXHAUSTED);
    expect(seen).toEqual([]);
    expect((await call(Buffer.from("next"))).error).toBeNull();
  });

  it("replies with a retry delay when too many bytes are in flight", async () => {
    let release = (): void => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    budget.take(950_000);
    respond = async () => {
      await gate;
      return accepted;
    };
    const first = call(Buffer.alloc(40_000));
    await expect.poll(() => seen).toHaveLength(1);
    expect((await call(Buffer.alloc(20_000))).error).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    release();
    expect((await first).error).toBeNull();
    expect(budget.usedBytes).toBe(950_000);
  });

  it("replies within the caller's deadline", async () => {
    respond = () => new Promise(() => {});
    expect((await call(Buffer.from("x"), { deadlineMs: 100 })).error?.code).toBe(status.DEADLINE_EXCEEDED);
  });

  /** A raw HTTP/2 client, for requests that no gRPC library sends. */
  function raw(headers: Record<string, string>, ...chunks: (Buffer | "wait")[]): Promise<Record<string, unknown>> {
    return new Promise((resolve, reject) => {
      const session = connectHttp2(`http://127.0.0.1:${servers.grpc?.port}`);
      session.on("error", reject);
      const stream = session.request({
        ":method": "POST",
        ":path": traceMethod,
        "content-type": "application/grpc",
        te: "trailers",
        ...headers,
      });
      let result: Record<string, unknown> = {};
      stream.on("response", (fields) => {
        result = { ...result, ...fields };
      });
      stream.on("trailers", (fields) => {
        result = { ...result, ...fields };
      });
      stream.on("error", () => {});
      stream.on("close", () => {
        session.close();
        resolve(result);
      });
      stream.resume();
      const waits = chunks.includes("wait");
      for (const chunk of chunks) if (chunk !== "wait") stream.write(chunk);
      if (!waits) stream.end();
    });
  }

  const frame = (text: string, flag = 0, length = text.length): Buffer => {
    const prefix = Buffer.alloc(5);
    prefix[0] = flag;
    prefix.writeUInt32BE(length, 1);
    return Buffer.concat([prefix, Buffer.from(text)]);
  };

  it.each<[string, string, Record<string, string>, (Buffer | "wait")[]]>([
    ["two messages", "12", {}, [frame("a"), frame("b")]],
    ["no message", "13", {}, []],
    ["half a prefix", "13", {}, [Buffer.from([0, 0])]],
    ["half a message", "13", {}, [frame("ab", 0, 5)]],
    ["an unknown flag", "13", {}, [frame("a", 2)]],
    ["compression that is not declared", "13", {}, [frame("a", 1)]],
    ["a body that does not arrive", "4", {}, [frame("ab", 0, 5), "wait"]],
    ["a huge length", "8", {}, [frame("ab", 0, 0xffff_ffff), "wait"]],
  ])("replies to %s with status %s", async (_name, code, headers, chunks) => {
    expect(await raw(headers, ...chunks)).toMatchObject({ ":status": 200, "grpc-status": code });
    expect(seen).toEqual([]);
    expect(budget.usedBytes).toBe(0);
  });

  it("accepts a message in pieces of one byte", async () => {
    const whole = frame("hello");
    expect(await raw({}, ...Array.from(whole, (byte) => Buffer.from([byte])))).toMatchObject({ "grpc-status": "0" });
    expect(seen[0]?.body.toString()).toBe("hello");
  });

  it("replies 415 to requests that are not gRPC", async () => {
    expect(await raw({ "content-type": "application/json" }, frame("x"))).toMatchObject({ ":status": 415 });
  });

  it("releases the budget of a caller that hangs up", async () => {
    const session = connectHttp2(`http://127.0.0.1:${servers.grpc?.port}`);
    const stream = session.request({ ":method": "POST", ":path": traceMethod, "content-type": "application/grpc" });
    stream.on("error", () => {});
    session.on("error", () => {});
    stream.write(frame("ab", 0, 50_000));
    await expect.poll(() => budget.usedBytes).toBe(50_000);
    session.destroy();
    await expect.poll(() => budget.usedBytes).toBe(0);
  });

  it("survives a client with another protocol", async () => {
    const socket = connect(servers.grpc?.port ?? 0, "127.0.0.1");
    socket.on("error", () => {}).resume();
    socket.write("GET / HTTP/1.1\r\n\r\n".repeat(50));
    await new Promise((resolve) => socket.once("close", resolve));
    expect((await call(Buffer.from("x"))).error).toBeNull();
  });

  it("enforces the connection limit", async () => {
    const sockets = Array.from({ length: 12 }, () =>
      connect(servers.grpc?.port ?? 0, "127.0.0.1")
        .on("error", () => {})
        .resume(),
    );
    await expect.poll(() => sockets.filter((socket) => socket.destroyed || socket.readableEnded).length).toBe(4);
    expect(servers.grpc?.connections).toBe(8);
    // Silent connections do not block other clients.
    expect((await call(Buffer.from("x"))).error).toBeNull();
    for (const socket of sockets) socket.destroy();
  });
});

describe("the HTTP server", () => {
  interface Reply {
    status: number;
    headers: Record<string, unknown>;
    body: Buffer;
  }

  function post(
    body: Uint8Array | string,
    over: { path?: string; method?: string; headers?: Record<string, string> } = {},
  ): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const outgoing = httpRequest(
        {
          port: servers.http?.port,
          host: "127.0.0.1",
          method: over.method ?? "POST",
          path: over.path ?? "/v1/traces",
          headers: { "content-type": "application/x-protobuf", ...over.headers },
        },
        (response) => {
          const chunks: Buffer[] = [];
          response.on("data", (chunk: Buffer) => chunks.push(chunk));
          response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }));
        },
      );
      outgoing.on("error", reject);
      outgoing.end(body);
    });
  }

  it.each([
    ["/v1/traces", "traces"],
    ["/v1/logs?x=1", "logs"],
    ["/v1/metrics", "metrics"],
  ])("accepts %s in both formats", async (path, signal) => {
    expect(await post("p", { path })).toMatchObject({ status: 200, headers: { "content-type": "application/x-protobuf" } });
    const json = await post("{}", { path, headers: { "content-type": "application/json; charset=utf-8" } });
    expect([json.status, json.headers["content-type"], json.body.toString()]).toEqual([200, "application/json", "{}"]);
    expect(seen.map(({ signal: name, format }) => [name, format])).toEqual([
      [signal, "protobuf"],
      [signal, "json"],
    ]);
    expect(budget.usedBytes).toBe(0);
  });

  it.each(["gzip", "deflate", "zstd"] as const)("passes %s on unchanged", async (encoding) => {
    const body = gzipSync("hello");
    await post(body, { headers: { "content-encoding": encoding } });
    expect(seen[0]).toEqual({ signal: "traces", format: "protobuf", encoding, body });
  });

  it("reports a partial success in the format of the request", async () => {
    respond = () => ({ kind: "accepted", rejected: 2, message: "no ids" });
    expect((await post("x")).body.toString("hex")).toBe("0a0a080212066e6f20696473");
    const json = await post("{}", { path: "/v1/metrics", headers: { "content-type": "application/json" } });
    expect(JSON.parse(json.body.toString())).toEqual({ partialSuccess: { rejectedDataPoints: "2", errorMessage: "no ids" } });
  });

  it.each<[OtlpServerReply, number, string | undefined]>([
    [{ kind: "refused", reason: "malformed", message: "bad" }, 400, undefined],
    [{ kind: "refused", reason: "too-large", message: "big" }, 413, undefined],
    [{ kind: "refused", reason: "busy", message: "busy", retryAfterMs: 1_500 }, 429, "2"],
    [{ kind: "refused", reason: "unavailable", message: "disk", retryAfterMs: 5_000 }, 503, "5"],
  ])("replies to %j with status %d", async (refusal, code, retryAfter) => {
    respond = () => refusal;
    const reply = await post("{}", { headers: { "content-type": "application/json" } });
    expect(reply.status).toBe(code);
    expect(reply.headers["retry-after"]).toBe(retryAfter);
    expect(JSON.parse(reply.body.toString())).toMatchObject({ message: refusal.message });
  });

  it.each<[number, Parameters<typeof post>[1]]>([
    [404, { path: "/v1/profiles" }],
    [404, { path: "/" }],
    [405, { method: "GET" }],
    [415, { headers: { "content-type": "text/plain" } }],
    [415, { headers: { "content-encoding": "br" } }],
    [403, { headers: { origin: "https://example.com" } }],
  ])("returns %d for %j", async (code, over) => {
    expect((await post(over?.method === "GET" ? "" : "x", over)).status).toBe(code);
    expect(seen).toEqual([]);
  });

  it("refuses a body that is too large, with and without a declared length", async () => {
    expect((await post(Buffer.alloc(100_001))).status).toBe(413);
    expect((await post(Buffer.alloc(300_000), { headers: { "transfer-encoding": "chunked" } })).status).toBe(413);
    expect(seen).toEqual([]);
    await expect.poll(() => budget.usedBytes).toBe(0);
    expect((await post("next")).status).toBe(200);
  });

  it("delivers the refusal to a sender that is still writing", async () => {
    const socket = connect(servers.http?.port ?? 0, "127.0.0.1");
    let [reply, problem] = ["", ""];
    socket.on("data", (bytes) => (reply += bytes)).on("error", ({ message }) => (problem = message));
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.write("POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: 400000\r\n\r\n");
    await expect.poll(() => reply).toContain("send smaller batches");
    // The body arrives only now: the connection must still be open.
    socket.write(Buffer.alloc(200_000), () => socket.write(Buffer.alloc(200_000)));
    await closed;
    expect(problem).toBe("");
    expect(socket.bytesWritten).toBeGreaterThan(400_000);
    expect(reply).toMatch(/^HTTP\/1.1 413 [^]*connection: close/i);
  });

  it("replies with a retry delay when too many bytes are in flight", async () => {
    budget.take(999_990);
    expect(await post(Buffer.alloc(50_000))).toMatchObject({ status: 429, headers: { "retry-after": "1" } });
    expect(budget.usedBytes).toBe(999_990);
  });

  it("disconnects a slow client, and releases its budget", async () => {
    const socket = connect(servers.http?.port ?? 0, "127.0.0.1");
    socket.on("error", () => {}).resume();
    socket.write("POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: 5000\r\n\r\nabc");
    await expect.poll(() => budget.usedBytes).toBe(3);
    await new Promise((resolve) => socket.once("close", resolve));
    expect(budget.usedBytes).toBe(0);
    expect(seen).toEqual([]);
  });
});

describe("with a token", () => {
  it("rejects senders without the token, on both listeners", async () => {
    await servers[Symbol.asyncDispose]();
    await start({ authorize: (header) => header === "Bearer secret" });
    using known = createOtlpClient({ url: `http://127.0.0.1:${servers.http?.port}`, headers: { authorization: "Bearer secret" } });
    using unknown = createOtlpClient({ url: `http://127.0.0.1:${servers.http?.port}` });
    const request: OtlpExport = { signal: "logs", format: "json", encoding: "identity", body: Buffer.from("{}") };
    const { signal } = new AbortController();
    expect(await unknown.send(request, signal)).toMatchObject({ kind: "refused", message: expect.stringContaining("401") });
    expect(await known.send(request, signal)).toEqual({ kind: "sent" });
    const client = new Client(`127.0.0.1:${servers.grpc?.port}`, credentials.createInsecure());
    const codeWith = (authorization: string) =>
      new Promise<number | undefined>((resolve) => {
        const metadata = new Metadata();
        metadata.set("authorization", authorization);
        const same = (value: Buffer) => value;
        client.makeUnaryRequest(traceMethod, same, same, Buffer.alloc(0), metadata, (error) => resolve(error?.code));
      });
    expect(await codeWith("Bearer wrong")).toBe(status.UNAUTHENTICATED);
    expect(await codeWith("Bearer secret")).toBeUndefined();
    client.close();
    expect(seen).toHaveLength(2);
  });
});

describe("createOtlpClient()", () => {
  const request: OtlpExport = { signal: "logs", format: "json", encoding: "gzip", body: gzipSync("{}") };
  const signal = new AbortController().signal;

  it("sends requests unchanged", async () => {
    using client = createOtlpClient({ url: `http://127.0.0.1:${servers.http?.port}/` });
    expect(await client.send(request, signal)).toEqual({ kind: "sent" });
    expect(seen).toEqual([request]);
  });

  it("distinguishes failures that may be retried", async () => {
    using client = createOtlpClient({ url: `http://127.0.0.1:${servers.http?.port}` });
    respond = () => ({ kind: "refused", reason: "busy", message: "later", retryAfterMs: 3_000 });
    expect(await client.send(request, signal)).toMatchObject({ kind: "retry", afterMs: 3_000, message: expect.stringContaining("429") });
    respond = () => ({ kind: "refused", reason: "malformed", message: "bad" });
    expect(await client.send(request, signal)).toMatchObject({ kind: "refused", message: expect.stringContaining("400") });
  });

  it("rejects when nothing is listening, and for an invalid address", async () => {
    using client = createOtlpClient({ url: "http://127.0.0.1:1" });
    await expect(client.send(request, signal)).rejects.toThrow(/ECONNREFUSED/);
    expect(() => createOtlpClient({ url: "ftp://x" })).toThrow(/http:/);
  });
});

describe("timeoutMsOf()", () => {
  it.each([
    ["100m", 100],
    ["2S", 2_000],
    ["1M", 60_000],
    ["1500u", 2],
    ["5n", 1],
    ["99999999H", Number.POSITIVE_INFINITY],
    [undefined, Number.POSITIVE_INFINITY],
    ["soon", Number.POSITIVE_INFINITY],
  ])("reads %s", (header, ms) => {
    expect(timeoutMsOf(header)).toBe(ms);
  });
});
