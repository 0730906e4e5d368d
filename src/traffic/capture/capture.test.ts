import { describe, expect, it } from "vitest";
import type { CapturedRequest, CaptureOrder, TrafficReport } from "../core/messages.ts";
import type { FinishedRequest } from "../core/protocol-decoder.ts";
import { createHttp1Decoder } from "../protocols/http/http1-stream.ts";
import { databaseDecoders } from "../streams/decoders.ts";
import type { PayloadRecord, StreamEnds } from "../streams/payload-streams.ts";
import { recognise } from "../streams/recognise.ts";
import { Captures } from "./capture.ts";

const order: CaptureOrder = {
  captureId: "one",
  pids: [7, 8],
  route: null,
  status: null,
  minDurationMs: 0,
  limit: 100,
  durationMs: 10_000,
  includeBody: false,
};

class FakeKernel {
  /** What `capture_targets` holds. */
  readonly targets = new Map<number, bigint>();
  readonly reports: TrafficReport[] = [];
  readonly captures: Captures;
  isActive = false;
  now = 1_000_000_000n;

  constructor() {
    this.captures = new Captures({
      targets: {
        update: (key, value) => void this.targets.set(key.readUInt32LE(), value.readBigUInt64LE()),
        delete: (key) => this.targets.delete(key.readUInt32LE()),
      },
      setActive: (isActive) => {
        this.isActive = isActive;
      },
      report: (report) => void this.reports.push(report),
      decoders: { ...databaseDecoders, http: (context) => createHttp1Decoder(context) },
      recognise,
      nowNs: () => this.now,
    });
  }

  /** A payload of process 7, which is the server. */
  copy(isSent: boolean, text: string, more: Partial<PayloadRecord> = {}): void {
    this.now += 1_000_000n;
    const bytes = Buffer.from(text, "latin1");
    this.captures.onPayload({
      ...{ connectionId: 1, pid: 7, isSent, isTls: false, isDatagram: false, protocol: null, role: null, localPort: 80, peerPort: 5000 },
      ...{ peerAddress: "10.0.0.2", localAddress: "10.0.0.1", atNs: Number(this.now), startNs: 0 },
      ...{ lengthBytes: bytes.length, offsetBytes: 0, bytes },
      ...more,
    });
  }

  get requests(): CapturedRequest[] {
    return this.reports.filter((report) => report.kind === "captured");
  }
}

const requestText = (path: string, more = ""): string =>
  `POST ${path} HTTP/1.1\r\nHost: shop\r\nAuthorization: Bearer abcdefghijk\r\nContent-Length: 21\r\n${more}\r\n{"password":"hunter"}`;
const responseText = (status: string): string => `HTTP/1.1 ${status}\r\nSet-Cookie: a=b\r\nContent-Length: 2\r\n\r\nok`;

describe("Captures", () => {
  it("pairs and redacts requests, and reports both ends", () => {
    const kernel = new FakeKernel();
    kernel.captures.start({ ...order, includeBody: true });
    kernel.copy(false, requestText("/pay/42?token=x"));
    kernel.copy(true, responseText("200 OK"));
    expect(kernel.requests).toEqual([
      {
        kind: "captured",
        captureId: "one",
        at: { monoNs: 1_001_000_000n },
        ...{ pid: 7, role: "server", protocol: "http", isTls: false },
        ...{ clientAddress: "10.0.0.2", clientPort: 5000, serverAddress: "10.0.0.1", serverPort: 80 },
        ...{ method: "POST", target: "/pay/42?token=***", route: "/pay/{id}", status: "200", isError: false },
        requestHeaders: [
          ["host", "shop"],
          ["authorization", "Bearer ***"],
          ["content-length", "21"],
        ],
        responseHeaders: [
          ["set-cookie", "***"],
          ["content-length", "2"],
        ],
        requestBytes: requestText("/pay/42?token=x").length,
        responseBytes: responseText("200 OK").length,
        ...{ durationNs: 1_000_000, firstByteNs: 1_000_000, queueNs: null },
        requestBody: '{"password":"***"}',
        responseBody: "ok",
      },
    ]);
  });

  it("omits bodies unless the order includes them", () => {
    const kernel = new FakeKernel();
    kernel.captures.start(order);
    kernel.copy(false, requestText("/a"));
    kernel.copy(true, responseText("200 OK"));
    expect(kernel.requests).toMatchObject([{ requestBody: null, responseBody: null }]);
    expect(JSON.stringify(kernel.reports, (_, value) => (typeof value === "bigint" ? String(value) : value))).not.toContain("hunter");
  });

  it.each([
    [{ route: "/pay" }, ["/pay/1", "/pay/2"]],
    [{ route: "/pay/{id}" }, ["/pay/1", "/pay/2"]],
    [{ route: "/pay/2" }, ["/pay/2"]],
    [{ status: "503" }, ["/pay/2"]],
    [{ status: "5xx" }, ["/pay/2"]],
    [{ status: "2xx" }, ["/pay/1", "/other"]],
    [{ status: "error" }, ["/pay/2"]],
    [{ minDurationMs: 3 }, ["/other"]],
    [{ route: "/pay", status: "200" }, ["/pay/1"]],
  ] satisfies [Partial<CaptureOrder>, string[]][])("captures only what matches %j", (filter, targets) => {
    const kernel = new FakeKernel();
    kernel.captures.start({ ...order, ...filter });
    for (const [target, status] of [
      ["/pay/1", "200 OK"],
      ["/pay/2", "503 Busy"],
      ["/other", "200 OK"],
    ] as const) {
      kernel.copy(false, requestText(target));
      if (target === "/other") kernel.now += 5_000_000n;
      kernel.copy(true, responseText(status));
    }
    expect(kernel.requests.map((request) => request.target)).toEqual(targets);
  });

  it("reports full sizes and times, although only the first 4 KiB of a payload are copied", () => {
    const kernel = new FakeKernel();
    kernel.captures.start(order);
    const head = "HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n";
    const copied = (start: string): string => start.padEnd(4096, "x");
    kernel.copy(false, requestText("/download"));
    kernel.copy(true, copied(head), { lengthBytes: 1_000_000 });
    kernel.copy(true, copied(""), { lengthBytes: 20_000_000 + head.length - 1_000_000 });
    expect(kernel.requests).toMatchObject([{ target: "/download", durationNs: 2e6, responseBytes: 20_000_000 + head.length }]);
    const upload = "POST /upload HTTP/1.1\r\nHost: shop\r\nContent-Length: 50000\r\n\r\n";
    kernel.copy(false, copied(upload), { lengthBytes: upload.length + 50_000 });
    kernel.copy(true, responseText("201 Created"));
    kernel.now += 800_000_000n;
    kernel.copy(false, requestText("/next"));
    kernel.copy(true, responseText("200 OK"));
    expect(kernel.requests.map(({ target, durationNs, requestBytes }) => [target, durationNs, requestBytes])).toEqual([
      ["/download", 2e6, requestText("/download").length],
      ["/upload", 1e6, upload.length + 50_000],
      ["/next", 1e6, requestText("/next").length],
    ]);
  });

  it("finds the end of chunked bodies whose writes are longer than the copied part", () => {
    const kernel = new FakeKernel();
    kernel.captures.start(order);
    const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    const chunk = "4000\r\n".padEnd(4096, "x");
    kernel.copy(false, requestText("/stream"));
    kernel.copy(true, head);
    for (let count = 0; count < 3; count++) kernel.copy(true, chunk, { lengthBytes: 0x4000 + 8 });
    expect(kernel.requests).toEqual([]);
    kernel.copy(true, "0\r\n\r\n");
    expect(kernel.requests).toMatchObject([{ durationNs: 5e6, responseBytes: head.length + 3 * (0x4000 + 8) + 5 }]);
    // Two chunks in one write: the end of the body is unknown, but every byte counts.
    kernel.copy(false, requestText("/stream"));
    kernel.copy(true, head);
    kernel.copy(true, chunk, { lengthBytes: 2 * (0x4000 + 8) + 5 });
    kernel.captures.sweep(kernel.now + 2_000_000_000n);
    expect(kernel.requests[1]).toMatchObject({ durationNs: 2e6, responseBytes: head.length + 2 * (0x4000 + 8) + 5 });
  });

  it("drops requests whose copies did not fit into the ring", () => {
    const kernel = new FakeKernel();
    kernel.captures.start(order);
    kernel.copy(false, requestText("/lost"));
    // The response to /lost, and the request of /unseen, whose response follows.
    kernel.copy(true, responseText("500 Oops"), { missed: { received: true, sent: true } });
    kernel.copy(false, requestText("/next"));
    kernel.copy(true, responseText("200 OK"));
    expect(kernel.requests.map(({ target, status }) => [target, status])).toEqual([["/next", "200"]]);
  });

  it("captures protocols other than HTTP", () => {
    const kernel = new FakeKernel();
    kernel.captures.start(order);
    kernel.copy(false, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$6\r\nsecret\r\n");
    kernel.copy(true, "+OK\r\n");
    expect(kernel.requests).toMatchObject([{ protocol: "redis", method: "SET", status: "", requestHeaders: [] }]);
    expect(kernel.requests[0]?.target).not.toContain("secret");
  });

  it("ends at its limit, and removes its targets from the kernel", () => {
    const kernel = new FakeKernel();
    kernel.captures.start({ ...order, limit: 2 });
    expect([...kernel.targets]).toEqual([
      [7, 11_000_000_000n],
      [8, 11_000_000_000n],
    ]);
    expect(kernel.isActive).toBe(true);
    for (let index = 0; index < 5; index++) {
      kernel.copy(false, requestText("/a"));
      kernel.copy(true, responseText("200 OK"));
    }
    expect(kernel.reports.map(({ kind }) => kind)).toEqual(["captured", "captured", "capture-ended"]);
    expect(kernel.reports.at(-1)).toEqual({ kind: "capture-ended", captureId: "one", reason: "limit" });
    expect(kernel.targets.size).toBe(0);
    expect(kernel.isActive).toBe(false);
  });

  it("ends at its deadline or when stopped", () => {
    const kernel = new FakeKernel();
    kernel.captures.start(order);
    kernel.captures.start({ ...order, captureId: "two", pids: [8, 9], durationMs: 20_000, includeBody: true });
    expect(kernel.targets.get(7)).toBe(11_000_000_000n);
    // The later deadline, with bodies: one of the two captures includes them.
    expect(kernel.targets.get(8)).toBe(21_000_000_001n);
    kernel.captures.sweep(11_000_000_000n);
    expect(kernel.reports).toEqual([{ kind: "capture-ended", captureId: "one", reason: "expired" }]);
    expect([...kernel.targets.keys()]).toEqual([8, 9]);
    kernel.captures.stop("two");
    kernel.captures.stop("two");
    expect(kernel.targets.size).toBe(0);
    expect(kernel.reports).toHaveLength(1);
    kernel.copy(false, requestText("/a"));
    kernel.copy(true, responseText("200 OK"));
    expect(kernel.requests).toEqual([]);
  });

  it("an order with the same id replaces the processes but not the deadline", () => {
    const kernel = new FakeKernel();
    kernel.captures.start(order);
    kernel.now += 5_000_000_000n;
    kernel.captures.start({ ...order, pids: [9] });
    expect([...kernel.targets]).toEqual([[9, 11_000_000_000n]]);
  });

  it("ends captures above the limit at once", () => {
    const kernel = new FakeKernel();
    for (let index = 0; index < 20; index++) kernel.captures.start({ ...order, captureId: String(index) });
    expect(kernel.reports).toHaveLength(4);
    expect(kernel.reports[0]).toMatchObject({ kind: "capture-ended", reason: "expired" });
    kernel.captures.start({ ...order, captureId: "0", pids: Array.from({ length: 1000 }, (_, pid) => pid + 100) });
    expect(kernel.targets.size).toBeLessThanOrEqual(256);
    kernel.captures[Symbol.dispose]();
    expect(kernel.targets.size).toBe(0);
  });

  it("captures HTTP/2 and DNS from their regular decoders, for its processes only", () => {
    const kernel = new FakeKernel();
    kernel.captures.start(order);
    const ends: StreamEnds = {
      pid: 7,
      role: "client",
      protocol: "http2",
      isTls: true,
      serverPort: 443,
      peerAddress: "10.0.0.9",
      peerPort: 443,
      localPort: 6000,
    };
    const request: FinishedRequest = {
      ...{ protocol: "grpc", method: "POST", route: "a.B/C", status: "13", isError: true, durationNs: 5, queueNs: null, firstByteNs: 2 },
      ...{ endNs: 100, requestBytes: 1, responseBytes: 2 },
      detail: {
        target: "/a.B/C",
        requestHeaders: [
          [":path", "/a.B/C"],
          ["x-token", "abc"],
        ],
        responseHeaders: [],
        requestBody: null,
        responseBody: null,
      },
    };
    kernel.captures.onRequest(ends, request);
    kernel.captures.onRequest({ ...ends, pid: 99 }, request);
    kernel.captures.onRequest({ ...ends, protocol: "mysql" }, request);
    const { detail: _none, ...query } = { ...request, protocol: "dns", method: "A", route: "shop.test", status: "NOERROR" } as const;
    kernel.captures.onRequest({ ...ends, protocol: "dns" }, query);
    expect(kernel.requests).toMatchObject([
      {
        protocol: "grpc",
        target: "/a.B/C",
        serverAddress: "10.0.0.9",
        serverPort: 443,
        clientPort: 6000,
        requestHeaders: [["x-token", "***"]],
      },
      { protocol: "dns", method: "A", target: "shop.test", status: "NOERROR" },
    ]);
  });
});
