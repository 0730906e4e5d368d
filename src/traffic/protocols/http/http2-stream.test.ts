import { once } from "node:events";
import { type ClientHttp2Session, connect as connectHttp2, createServer as createHttp2Server, type Http2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { SeededRandom } from "../../../base/seeded-random.fixture.ts";
import type { Chunk } from "../../core/protocol-decoder.ts";
import { feed, observer, type Piece, recorder, summary } from "./http2-recorder.fixture.ts";

const closers: (() => Promise<void> | void)[] = [];

async function startHttp2(): Promise<Http2Server> {
  const server = createHttp2Server();
  server.on("error", () => {});
  server.on("stream", (stream, headers) => {
    stream.on("error", () => {});
    const path = String(headers[":path"]);
    if (path.startsWith("/reset")) return stream.close(8);
    if (path.startsWith("/early")) stream.additionalHeaders({ ":status": 103, link: "</a.css>" });
    if (path.startsWith("/push"))
      stream.pushStream({ ":path": "/pushed.css" }, (_error, pushed) => {
        pushed.on("error", () => {});
        pushed.respond({ ":status": 200 });
        pushed.end("css");
      });
    stream.respond(
      { ":status": path.startsWith("/missing") ? 404 : path.startsWith("/created") ? 201 : 200, "x-long": "y".repeat(300) },
      {
        waitForTrailers: path.startsWith("/trailers"),
      },
    );
    if (path.startsWith("/trailers")) stream.on("wantTrailers", () => stream.sendTrailers({ "x-sum": "1" }));
    stream.resume();
    stream.end(path.startsWith("/big") ? Buffer.alloc(100_000) : "hello");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => void server.close());
  return server;
}

async function ask(session: ClientHttp2Session, path: string, body?: Buffer): Promise<void> {
  const stream = session.request({ ":method": body ? "POST" : "GET", ":path": path, cookie: `session=${path.length}` });
  stream.on("error", () => {});
  stream.on("push", () => {});
  stream.end(body);
  stream.resume();
  await once(stream, "close");
}

async function recordHttp2(run: (session: ClientHttp2Session) => Promise<void>): Promise<Piece[]> {
  const server = await startHttp2();
  const { port, pieces, close } = await recorder((server.address() as AddressInfo).port);
  closers.push(close);
  const session = connectHttp2(`http://127.0.0.1:${port}`, { settings: { enablePush: true } });
  session.on("stream", (pushed) => {
    pushed.resume();
    pushed.on("error", () => {});
  });
  await once(session, "remoteSettings");
  await run(session);
  session.close();
  await once(session, "close");
  return pieces;
}

afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

describe("createHttp2Decoder() on traffic of Node", () => {
  it("emits every stream once, however reads are split", async () => {
    const pieces = await recordHttp2(async (session) => {
      await ask(session, "/users/1?a=b");
      await ask(session, "/created", Buffer.alloc(40_000));
      await Promise.all(Array.from({ length: 50 }, (_, id) => ask(session, `/users/${id}`)));
      for (const path of ["/missing", "/big", "/early", "/trailers", "/push", "/reset"]) await ask(session, path);
    });
    for (const readBytes of [65_536, 1000, 7, 1]) {
      for (const pieceBytes of [4096, 16]) {
        const observed = observer();
        feed(observed, pieces, { readBytes, pieceBytes });
        expect(summary(observed.requests)).toEqual({
          "http2 GET /users/{id} 200": 51,
          "http2 POST /created 201": 1,
          "http2 GET /missing 404": 1,
          "http2 GET /big 200": 1,
          "http2 GET /early 200": 1,
          "http2 GET /trailers 200": 1,
          "http2 GET /push 200": 1,
          "http2 GET /reset no-reply error": 1,
        });
        expect(observed.undecoded).toBe(0);
        const posted = observed.requests.find(({ route }) => route === "/created");
        expect(posted?.requestBytes).toBeGreaterThan(40_000);
        expect(posted?.requestBytes).toBeLessThan(40_200);
        const big = observed.requests.find(({ route }) => route === "/big");
        expect(big?.responseBytes).toBeGreaterThan(100_000);
        expect(big?.host).toBe("127.0.0.1");
        for (const { durationNs, queueNs, firstByteNs } of observed.requests) {
          expect(queueNs).toBe(400);
          expect(durationNs).toBeGreaterThanOrEqual(400);
          expect(firstByteNs ?? 0).toBeLessThanOrEqual(durationNs);
        }
      }
    }
  });

  it("counts a refusal as an error for a client, without a queue time", async () => {
    const pieces = await recordHttp2((session) => ask(session, "/missing"));
    const observed = observer("client");
    feed(observed, pieces);
    expect(summary(observed.requests)).toEqual({ "http2 GET /missing 404 error": 1 });
    expect(observed.requests[0]?.queueNs).toBeNull();
  });

  it("after joining midway, counts every later stream, and knows paths that Node sends as literals", async () => {
    let before = 0;
    let pieces: Piece[] = [];
    const server = await startHttp2();
    const recorded = await recorder((server.address() as AddressInfo).port);
    closers.push(recorded.close);
    const session = connectHttp2(`http://127.0.0.1:${recorded.port}`);
    await once(session, "remoteSettings");
    for (let id = 0; id < 3; id++) await ask(session, `/users/${id}`);
    before = recorded.pieces.length;
    for (let id = 0; id < 5; id++) await ask(session, `/users/${id}`);
    await ask(session, "/missing");
    pieces = recorded.pieces.slice(before);
    session.destroy();
    const observed = observer();
    feed(observed, pieces, { isJoinedMidway: true });
    expect(summary(observed.requests)).toEqual({ "http2 GET /users/{id} 200": 5, "http2 GET /missing 404": 1 });
  });

  it("keeps what a capture needs, and nothing else", async () => {
    const pieces = await recordHttp2((session) => ask(session, "/users/1?token=x"));
    const plain = observer();
    feed(plain, pieces);
    expect(plain.requests[0]?.detail).toBeUndefined();
    const capturing = observer("server", true);
    feed(capturing, pieces);
    expect(capturing.requests[0]?.detail?.target).toBe("/users/1?token=x");
    expect(capturing.requests[0]?.detail?.requestHeaders).toContainEqual(["cookie", "session=16"]);
    expect(capturing.requests[0]?.detail?.responseHeaders).toContainEqual(["x-long", "y".repeat(300)]);
  });

  it("emits no-reply for streams that a closed connection left open", async () => {
    const pieces = await recordHttp2((session) => ask(session, "/users/1"));
    const observed = observer();
    feed(
      observed,
      pieces.filter(({ isRequest }) => isRequest),
    );
    observed.decoder.onClose(9_000_000);
    expect(observed.requests).toMatchObject([
      { route: "/users/{id}", status: "no-reply", isError: true, firstByteNs: null, endNs: 9_000_000 },
    ]);
    const forgotten = observer();
    feed(
      forgotten,
      pieces.filter(({ isRequest }) => isRequest),
    );
    forgotten.decoder.onClose(null);
    expect(forgotten).toMatchObject({ requests: [], undecoded: 1 });
  });
});

/** A record as the kernel emits it, with one frame. */
function record(sequence: number, type: number, flags: number, streamId: number, payload = "", length?: number): Chunk {
  const taken = Buffer.from(payload, "hex");
  const head = Buffer.alloc(16);
  head.writeUInt32LE(sequence);
  head[4] = type;
  head[5] = flags;
  head.writeUInt16LE(taken.length, 6);
  head.writeUInt32LE(streamId, 8);
  head.writeUInt32LE(length ?? taken.length, 12);
  const bytes = Buffer.concat([head, taken]);
  return { bytes, fullLength: bytes.length, atNs: 1000 + sequence * 10, startNs: 0 };
}

const get = "8286 44022f61".replaceAll(" ", "");

describe("createHttp2Decoder() on single frames", () => {
  it("reads padding, priority and continuations", () => {
    const { decoder, requests } = observer();
    decoder.onRequestBytes(record(0, 1, 1 | 4 | 8 | 0x20, 1, `03 80000000 10 ${get} 000000`.replaceAll(" ", "")));
    decoder.onRequestBytes(record(1, 1, 1, 3, get.slice(0, 4)));
    decoder.onRequestBytes(record(2, 9, 0, 3, get.slice(4, 6)));
    decoder.onRequestBytes(record(3, 9, 4, 3, get.slice(6)));
    decoder.onReplyBytes(record(0, 1, 5, 3, "88"));
    decoder.onReplyBytes(record(1, 1, 4, 1, "8d"));
    decoder.onReplyBytes(record(2, 0, 1, 1, "", 500));
    expect(summary(requests)).toEqual({ "http2 GET /a 200": 1, "http2 GET /a 404": 1 });
    expect(requests[1]).toMatchObject({ responseBytes: 10 + 509, requestBytes: 9 + 6 + 6 + 3 });
  });

  it("clears the table when a record was lost, and counts streams that can no longer end", () => {
    const { decoder, requests } = observer();
    decoder.onRequestBytes(record(0, 1, 5, 1, get));
    decoder.onReplyBytes(record(0, 1, 5, 1, "88"));
    decoder.onRequestBytes(record(1, 1, 5, 3, "8286be"));
    decoder.onReplyBytes(record(1, 1, 5, 3, "88"));
    // Sequence 2 is missing: it may have added to the table.
    decoder.onRequestBytes(record(3, 1, 5, 7, "8286be"));
    decoder.onReplyBytes(record(2, 1, 5, 7, "88"));
    expect(requests.map(({ route }) => route)).toEqual(["/a", "/a", "unknown"]);
  });

  it.each([
    ["be", "grpc POST unknown unknown"],
    ["7e0135", "grpc POST unknown 5"],
    ["7e023133", "grpc POST unknown 13 error"],
  ])("after joining midway, recognises gRPC by its trailers when path and content type were sent before (%s)", (trailers, expected) => {
    const { decoder, requests } = observer();
    decoder.onRequestBytes(record(7, 1, 5, 9, "8386be"));
    decoder.onReplyBytes(record(7, 1, 5, 9, `88${trailers}`));
    decoder.onRequestBytes(record(8, 1, 5, 11, "8386be"));
    decoder.onReplyBytes(record(8, 1, 4, 11, "88be"));
    decoder.onReplyBytes(record(9, 0, 0, 11, "", 12));
    decoder.onReplyBytes(record(10, 1, 5, 11, trailers));
    decoder.onRequestBytes(record(9, 1, 5, 13, "8386be"));
    decoder.onReplyBytes(record(11, 1, 5, 13, `88${trailers}`));
    // A response without trailers is known to be gRPC only after one with trailers.
    expect(summary(requests)).toEqual({ "http2 POST unknown 200": 1, [expected]: 2 });
  });

  it("counts streams that were open when records were lost as undecoded, once the connection is idle", () => {
    const observed = observer();
    observed.decoder.onRequestBytes(record(0, 1, 5, 1, get));
    observed.decoder.onRequestBytes(record(5, 1, 5, 3, get));
    observed.decoder.onIdle();
    expect(observed.undecoded).toBe(1);
    observed.decoder.onReplyBytes(record(0, 1, 5, 3, "88"));
    expect(observed.requests).toHaveLength(1);
  });

  it("ends an aborted response with its connection, not with its head", () => {
    const observed = observer();
    observed.decoder.onRequestBytes(record(0, 1, 5, 1, get));
    observed.decoder.onReplyBytes(record(0, 1, 4, 1, "88"));
    observed.decoder.onClose(300_000_000);
    expect(observed.requests).toMatchObject([{ status: "200", isError: false, firstByteNs: 0, endNs: 300_000_000 }]);
    expect(observed.requests[0]?.durationNs).toBeGreaterThan(290_000_000);
  });

  it("never emits no-reply for a stream whose response may have been lost", () => {
    const observed = observer();
    observed.decoder.onRequestBytes(record(0, 1, 5, 1, get));
    observed.decoder.onRequestBytes(record(1, 1, 5, 3, get));
    observed.decoder.onReplyBytes(record(0, 1, 4, 3, "88"));
    observed.decoder.onMissed("replies", 1_000_000);
    observed.decoder.onClose(2_000_000);
    expect(summary(observed.requests)).toEqual({ "http2 GET /a 200": 1 });
    // The other stream does not end now either: its end may have been lost.
    expect(observed.requests[0]?.endNs).toBeLessThan(2_000_000);
    expect(observed.undecoded).toBe(1);
  });

  it("decodes a truncated block as far as possible", () => {
    const { decoder, requests } = observer();
    decoder.onRequestBytes(record(0, 1, 5, 1, `${get}40`, 5000));
    decoder.onRequestBytes(record(1, 1, 5, 3, get));
    decoder.onReplyBytes(record(0, 1, 5, 1, "88"));
    decoder.onReplyBytes(record(1, 1, 5, 3, "88"));
    expect(requests.map(({ route }) => route)).toEqual(["/a", "/a"]);
  });

  it("ends streams above the last one that GOAWAY names", () => {
    const { decoder, requests } = observer();
    for (const streamId of [1, 3, 5]) decoder.onRequestBytes(record(streamId >> 1, 1, 5, streamId, get));
    decoder.onReplyBytes(record(0, 7, 0, 0, "0000000300000000"));
    expect(requests).toMatchObject([{ status: "no-reply", isError: true }]);
    decoder.onReplyBytes(record(1, 1, 5, 3, "88"));
    expect(requests).toHaveLength(2);
  });

  it.each([
    [7, "14", true],
    [8, "1", false],
    [2, "13", true],
  ])("emits a gRPC call that was reset with %d as status %s", (code, status, isError) => {
    const { decoder, requests } = observer();
    decoder.onRequestBytes(
      record(
        0,
        1,
        4,
        1,
        `83 86 4403${Buffer.from("/a/").toString("hex")} 5f10${Buffer.from("application/grpc").toString("hex")}`.replaceAll(" ", ""),
      ),
    );
    decoder.onReplyBytes(record(0, 3, 0, 1, code.toString(16).padStart(8, "0")));
    expect(requests).toMatchObject([{ protocol: "grpc", status, isError }]);
  });

  it.each([
    ["200m", 199, "4", true],
    ["200m", 150, "1", false],
    ["1S", 1_000, "4", true],
    ["x", 1_000, "1", false],
  ])("emits a gRPC call with timeout %s that was canceled after %d ms as status %s", (timeout, afterMs, status, isError) => {
    const literal = (text: string): string => text.length.toString(16).padStart(2, "0") + Buffer.from(text).toString("hex");
    const { decoder, requests } = observer();
    const head = `838644${literal("/a/")}5f${literal("application/grpc")}40${literal("grpc-timeout")}${literal(timeout)}`;
    decoder.onRequestBytes(record(0, 1, 4, 1, head));
    const cancel = record(1, 3, 0, 1, "00000008");
    decoder.onRequestBytes({ ...cancel, atNs: 1000 + afterMs * 1e6 });
    expect(requests).toMatchObject([{ protocol: "grpc", status, isError }]);
  });

  it("stays bounded and terminates on any input", () => {
    const random = new SeededRandom(11);
    const observed = observer("client", true);
    const types = [0, 1, 1, 1, 3, 5, 7, 9, 0xf0, 0xf1, 2, 200];
    const sequences = [0, 0];
    for (let round = 0; round < 30_000; round++) {
      const length = random.below(40);
      const payload = Buffer.from(Array.from({ length }, () => random.below(256))).toString("hex");
      const direction = random.below(2);
      const sequence = random.below(50) === 0 ? random.below(1 << 20) : (sequences[direction]! + 1) >>> 0;
      sequences[direction] = sequence;
      const streamId = random.below(round % 3 ? 40 : 9000);
      const chunk = record(sequence, random.pick(types), random.below(256), streamId, payload, length + random.below(3) * 1000);
      if (random.below(50) === 0) chunk.bytes = chunk.bytes.subarray(0, random.below(20));
      if (direction) observed.decoder.onRequestBytes(chunk);
      else observed.decoder.onReplyBytes(chunk);
      if (round % 1000 === 0) observed.decoder.onIdle();
    }
    observed.decoder.onClose(1);
    expect(observed.requests.length).toBeGreaterThan(100);
    for (const { route, status } of observed.requests) {
      expect(route.length).toBeLessThanOrEqual(120);
      expect(status).toMatch(/^(?:\d{1,3}|unknown|no-reply)$/);
    }
  });
});
