/** The HTTP/2 decoder on real gRPC traffic of grpc-js. */

import * as grpc from "@grpc/grpc-js";
import { afterEach, describe, expect, it } from "vitest";
import { feed, observer, type Piece, recorder, summary } from "../../src/traffic/protocols/http/http2-recorder.fixture.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

const passBytes = {
  requestSerialize: (v: Buffer) => v,
  requestDeserialize: (v: Buffer) => v,
  responseSerialize: (v: Buffer) => v,
  responseDeserialize: (v: Buffer) => v,
};
const shop = {
  buy: { path: "/shop.v1.Cart/Buy", requestStream: false, responseStream: false, ...passBytes },
  list: { path: "/shop.v1.Cart/List", requestStream: false, responseStream: true, ...passBytes },
  fill: { path: "/shop.v1.Cart/Fill", requestStream: true, responseStream: false, ...passBytes },
  gone: { path: "/shop.v1.Cart/Gone", requestStream: false, responseStream: false, ...passBytes },
} as const;

async function recordGrpc(run: (client: grpc.Client) => Promise<void>): Promise<Piece[]> {
  const server = new grpc.Server();
  server.addService(
    { buy: shop.buy, list: shop.list, fill: shop.fill },
    {
      buy: (call: grpc.ServerUnaryCall<Buffer, Buffer>, done: grpc.sendUnaryData<Buffer>) => {
        if (call.request.length === 0) done({ code: grpc.status.NOT_FOUND, details: "no such thing" });
        else if (call.request[0] === 1) done({ code: grpc.status.INTERNAL, details: "broken" });
        else done(null, call.request);
      },
      list: (call: grpc.ServerWritableStream<Buffer, Buffer>) => {
        for (let index = 0; index < 20; index++) call.write(Buffer.alloc(100));
        call.end();
      },
      fill: (call: grpc.ServerReadableStream<Buffer, Buffer>, done: grpc.sendUnaryData<Buffer>) => {
        call.on("data", () => {});
        call.on("end", () => done(null, Buffer.alloc(1)));
      },
    },
  );
  const serverPort = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, port) => (error ? reject(error) : resolve(port))),
  );
  closers.push(() => server.forceShutdown());
  const { port, pieces, close } = await recorder(serverPort);
  closers.push(close);
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
  closers.push(() => client.close());
  await run(client);
  return pieces;
}

const pass = (value: Buffer): Buffer => value;

function unary(client: grpc.Client, path: string, body: Buffer): Promise<void> {
  return new Promise((resolve) => {
    client.makeUnaryRequest(path, pass, pass, body, () => resolve());
  });
}

function streaming(client: grpc.Client): Promise<void> {
  return new Promise((resolve) => {
    const call = client.makeServerStreamRequest(shop.list.path, pass, pass, Buffer.alloc(1));
    call.on("data", () => {});
    call.on("error", () => {});
    call.on("status", () => resolve());
  });
}

function filling(client: grpc.Client): Promise<void> {
  return new Promise((resolve) => {
    const call = client.makeClientStreamRequest(shop.fill.path, pass, pass, () => resolve());
    for (let index = 0; index < 10; index++) call.write(Buffer.alloc(50));
    call.end();
  });
}

describe("createHttp2Decoder() on traffic of grpc-js", () => {
  const expected = {
    "grpc POST shop.v1.Cart/Buy 0": 10,
    "grpc POST shop.v1.Cart/Buy 5": 2,
    "grpc POST shop.v1.Cart/Buy 13 error": 1,
    "grpc POST shop.v1.Cart/Gone 12 error": 1,
    "grpc POST shop.v1.Cart/List 0": 2,
    "grpc POST shop.v1.Cart/Fill 0": 1,
  };
  const runAll = async (client: grpc.Client): Promise<void> => {
    await Promise.all(Array.from({ length: 10 }, () => unary(client, shop.buy.path, Buffer.alloc(30, 7))));
    for (let index = 0; index < 2; index++) await unary(client, shop.buy.path, Buffer.alloc(0));
    await unary(client, shop.buy.path, Buffer.alloc(1, 1));
    await unary(client, shop.gone.path, Buffer.alloc(1));
    await streaming(client);
    await streaming(client);
    await filling(client);
  };

  it("reads service and method, and the status in the trailers", async () => {
    const pieces = await recordGrpc(runAll);
    for (const readBytes of [65_536, 11]) {
      const observed = observer();
      feed(observed, pieces, { readBytes });
      expect(summary(observed.requests)).toEqual(expected);
      expect(observed.undecoded).toBe(0);
      expect(observed.requests.find(({ route }) => route.endsWith("List"))?.responseBytes).toBeGreaterThan(20 * 105);
    }
    const asClient = observer("client");
    feed(asClient, pieces);
    expect(summary(asClient.requests)["grpc POST shop.v1.Cart/Buy 5 error"]).toBe(2);
  });

  it("counts every call as gRPC when it joins midway", async () => {
    const pieces = await recordGrpc(async (client) => {
      await runAll(client);
      await runAll(client);
    });
    // The second half begins as soon as the pieces before it contain the first seventeen calls.
    const half = pieces.findIndex((_, index) => {
      const observed = observer();
      feed(observed, pieces.slice(0, index));
      return observed.requests.length >= 17;
    });
    const late = observer();
    feed(late, pieces.slice(half), { isJoinedMidway: true });
    // Only statuses that were added to the table in the first half are unknown.
    expect(summary(late.requests)).toEqual({
      "grpc POST shop.v1.Cart/Buy unknown": 13,
      "grpc POST shop.v1.Cart/Gone unknown": 1,
      "grpc POST shop.v1.Cart/List unknown": 2,
      "grpc POST shop.v1.Cart/Fill unknown": 1,
    });
  });

  it("reads a new status when it joins midway", async () => {
    const pieces = await recordGrpc(async (client) => {
      for (let call = 0; call < 5; call++) await unary(client, shop.buy.path, Buffer.alloc(3, 7));
      for (let call = 0; call < 2; call++) await unary(client, shop.buy.path, Buffer.alloc(0));
    });
    const half = pieces.findIndex((_, index) => {
      const observed = observer();
      feed(observed, pieces.slice(0, index));
      return observed.requests.length >= 5;
    });
    const late = observer("client");
    feed(late, pieces.slice(half), { isJoinedMidway: true });
    expect(summary(late.requests)).toEqual({ "grpc POST shop.v1.Cart/Buy 5 error": 2 });
  });
});
