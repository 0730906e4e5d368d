import { describe, expect, it } from "vitest";
import { AskedNames } from "./asked-names.ts";
import type { StreamEnds } from "./payload-streams.ts";
import type { FinishedRequest } from "./protocol-decoder.ts";

const ends: StreamEnds = {
  ...{ pid: 7, role: "server", protocol: "http2", isTls: false, serverPort: 80, peerAddress: "10.0.0.2", peerPort: 5000, localPort: 80 },
};
const request: FinishedRequest = {
  ...{ method: "POST", route: "/a", status: "200", isError: false, durationNs: 1, queueNs: null, firstByteNs: 1, endNs: 2 },
  ...{ requestBytes: 1, responseBytes: 1, host: "shop" },
};

describe("AskedNames", () => {
  it("counts what servers are called, and hands it over once", () => {
    const names = new AskedNames(() => {});
    names.onRequest(ends, request);
    names.onRequest(ends, { ...request, protocol: "grpc", route: "shop.v1.Cart/Buy" });
    names.onRequest(ends, { ...request, host: null });
    expect(names.take()).toEqual({
      names: [
        { pid: 7, port: 80, source: "http_host", name: "shop", requests: 2 },
        { pid: 7, port: 80, source: "grpc_service", name: "shop.v1.Cart", requests: 1 },
      ],
      peerNames: [],
    });
    expect(names.take()).toEqual({ names: [], peerNames: [] });
  });

  it("tells what clients call the servers that they ask", () => {
    const names = new AskedNames(() => {});
    const client: StreamEnds = { ...ends, role: "client", serverPort: 443 };
    for (let count = 0; count < 3; count++) names.onRequest(client, { ...request, protocol: "grpc", route: "a.B/C" });
    expect(names.take().peerNames).toEqual([{ address: "10.0.0.2", port: 443, name: "shop", source: "http_host" }]);
  });

  it("holds a bounded number of names", () => {
    let lost = 0;
    const names = new AskedNames((_, count) => {
      lost += count;
    });
    for (let host = 0; host < 5000; host++) names.onRequest(ends, { ...request, host: `h${host}` });
    expect(names.take().names).toHaveLength(4096);
    expect(lost).toBe(904);
  });
});
