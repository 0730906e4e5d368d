import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../../base/seeded-random.fixture.ts";
import type { TrafficRole } from "../../core/messages.ts";
import type { Chunk, FinishedRequest, ProtocolDecoder } from "../../core/protocol-decoder.ts";
import { createHttp1Decoder } from "./http1-stream.ts";

interface Observed {
  decoder: ProtocolDecoder;
  requests: FinishedRequest[];
  undecoded: number;
  /** Sends text one way, in payloads of at most `size`, one microsecond apart. */
  request(text: string, size?: number): void;
  reply(text: string, size?: number): void;
}

function observer(role: TrafficRole = "server", isCapturing = false): Observed {
  let atNs = 1_000_000;
  const send = (give: (chunk: Chunk) => void, text: string, size: number): void => {
    for (let at = 0; at < text.length; at += size) {
      atNs += 1000;
      const bytes = Buffer.from(text.slice(at, at + size), "latin1");
      give({ bytes, fullLength: bytes.length, atNs, startNs: atNs - 300 });
    }
  };
  const observed: Observed = {
    requests: [],
    undecoded: 0,
    decoder: undefined as never,
    request: (text, size = 65_536) => send((chunk) => observed.decoder.onRequestBytes(chunk), text, size),
    reply: (text, size = 65_536) => send((chunk) => observed.decoder.onReplyBytes(chunk), text, size),
  };
  observed.decoder = createHttp1Decoder({
    role,
    isCapturing: () => isCapturing,
    sink: {
      finished: (request) => observed.requests.push(request),
      undecoded: (count) => {
        observed.undecoded += count;
      },
    },
  });
  return observed;
}

const summaries = ({ requests }: Observed): string[] =>
  requests.map(({ method, route, status, isError }) => `${method} ${route} ${status}${isError ? " error" : ""}`);

const get = (path: string, more = ""): string => `GET ${path} HTTP/1.1\r\nHost: shop\r\n${more}\r\n`;
const ok = (body: string, status = "200 OK"): string => `HTTP/1.1 ${status}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const chunked = (...chunks: string[]): string =>
  `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks.map((text) => `${text.length.toString(16)};x=y\r\n${text}\r\n`).join("")}0\r\nX-T: 1\r\n\r\n`;

describe("createHttp1Decoder()", () => {
  it.each([65_536, 100, 7, 1])("pairs pipelined requests with their responses, in payloads of %d bytes", (size) => {
    const observed = observer();
    observed.request(
      get("/a/1") +
        get("/b") +
        `POST /c HTTP/1.1\r\nHost: shop\r\nContent-Length: 40\r\n\r\n${"GET / HTTP/1.1\r\n".repeat(3).slice(0, 40)}` +
        get("/d"),
      size,
    );
    observed.reply(
      ok("hello") + ok("", "404 Not Found") + chunked("HTTP/1.1 500 no\r\n\r\n", "x".repeat(300)) + ok("b".repeat(500), "503 Busy"),
      size,
    );
    expect(summaries(observed)).toEqual(["GET /a/{id} 200", "GET /b 404", "POST /c 200", "GET /d 503 error"]);
    expect(observed.undecoded).toBe(0);
    const [first, , posted] = observed.requests;
    expect(first).toMatchObject({ host: "shop", requestBytes: get("/a/1").length, responseBytes: ok("hello").length, queueNs: 300 });
    expect(posted?.requestBytes).toBe(`POST /c HTTP/1.1\r\nHost: shop\r\nContent-Length: 40\r\n\r\n`.length + 40);
    for (const { durationNs, firstByteNs } of observed.requests) expect(firstByteNs!).toBeLessThanOrEqual(durationNs);
  });

  it("counts requests that were open when responses were lost as undecoded, and continues with the next", () => {
    const observed = observer();
    observed.request(get("/a") + get("/b"));
    observed.reply(ok("hello").slice(0, -2));
    observed.decoder.onMissed("replies", 2_000_000);
    observed.reply("of a body");
    observed.request(get("/c"));
    observed.reply(ok("hello"));
    observed.decoder.onClose(3_000_000);
    expect(summaries(observed)).toEqual(["GET /c 200"]);
    expect(observed.undecoded).toBe(2);
  });

  it("recognises responses without a body", () => {
    const observed = observer("client");
    observed.request("HEAD /a HTTP/1.1\r\n\r\n");
    observed.reply("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n");
    observed.request(get("/b"));
    observed.reply("HTTP/1.1 204 No Content\r\n\r\n");
    observed.request(get("/c"));
    observed.reply("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n");
    observed.request(get("/d"));
    observed.reply(ok("x", "403 Forbidden"));
    expect(summaries(observed)).toEqual(["HEAD /a 200", "GET /b 204", "GET /c 304", "GET /d 403 error"]);
    expect(observed.requests[0]?.queueNs).toBeNull();
  });

  it("skips 100 and 103, and stops at an upgrade", () => {
    const observed = observer();
    observed.request("PUT /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    observed.reply("HTTP/1.1 100 Continue\r\n\r\n");
    observed.request("ab");
    observed.reply(`HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n${ok("done", "201 Created")}`);
    observed.request(get("/socket", "Upgrade: websocket\r\n"));
    observed.reply("HTTP/1.1 101 Switching Protocols\r\n\r\n\u0081\u0005hello");
    observed.request("\u0081\u0085maskGET / HTTP/1.1\r\n\r\n");
    observed.request("GET /not HTTP/1.1\r\n\r\n");
    expect(summaries(observed)).toEqual(["PUT /a 201", "GET /socket 101"]);
    observed.decoder.onClose(9_000_000);
    expect(observed.requests).toHaveLength(2);
  });

  it("ends responses without a length with the connection, when it goes idle, or with the next request", () => {
    const streamed = "HTTP/1.0 200 OK\r\n\r\nsome";
    for (const end of ["close", "quiet", "next"]) {
      const observed = observer();
      observed.request(get("/a"));
      observed.reply(streamed);
      observed.reply("more");
      expect(observed.requests).toHaveLength(0);
      if (end === "close") observed.decoder.onClose(5_000_000);
      else if (end === "quiet") observed.decoder.onIdle();
      else observed.request(get("/b"));
      expect(summaries(observed)).toEqual(["GET /a 200"]);
      expect(observed.requests[0]).toMatchObject({ responseBytes: streamed.length + 4, durationNs: 2300, firstByteNs: 1300 });
    }
  });

  it("emits no-reply when the connection ends first, and nothing when it was evicted", () => {
    const observed = observer();
    observed.request(get("/a"));
    observed.decoder.onClose(2_000_000);
    expect(observed.requests).toMatchObject([{ status: "no-reply", isError: true, firstByteNs: null, endNs: 2_000_000 }]);
    const forgotten = observer();
    forgotten.request(get("/a"));
    forgotten.decoder.onClose(null);
    expect(forgotten).toMatchObject({ requests: [], undecoded: 1 });
  });

  it("continues after bytes that were not captured", () => {
    const observed = observer();
    const cut = (text: string, missing: number): Chunk => ({
      bytes: Buffer.from(text, "latin1"),
      fullLength: text.length + missing,
      atNs: 2_000_000,
      startNs: 0,
    });
    // Truncated: a body of known length, a head, chunks.
    observed.decoder.onRequestBytes(cut("POST /a HTTP/1.1\r\nContent-Length: 10000\r\n\r\nabc", 9997));
    observed.decoder.onReplyBytes(cut("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", 5000));
    observed.decoder.onRequestBytes(cut("GET /b HTTP/1.1\r\nCookie: aaaaaa", 900));
    observed.decoder.onReplyBytes(cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nabc", 70_000));
    observed.decoder.onRequestBytes(cut("GET /c HTTP/1.1\r\n\r\n", 0));
    observed.decoder.onReplyBytes(cut(ok("c"), 0));
    expect(summaries(observed)).toEqual(["POST /a 200", "GET /b 200", "GET /c 200"]);
    expect(observed.requests[0]?.requestBytes).toBe("POST /a HTTP/1.1\r\nContent-Length: 10000\r\n\r\n".length + 10_000);
    expect(observed.undecoded).toBe(0);
  });

  it("after joining midway, skips messages whose start was not seen", () => {
    const observed = observer();
    observed.reply(`rest of a body${ok("x")}`);
    observed.request("rest of a body");
    observed.request(get("/a"));
    observed.reply(ok("x"));
    expect(summaries(observed)).toEqual(["GET /a 200"]);
    expect(observed.undecoded).toBe(1);
  });

  it("keeps heads and the first bytes of bodies for a capture", () => {
    const observed = observer("server", true);
    observed.request(`POST /a?b=c HTTP/1.1\r\nCookie: x=y\r\nContent-Length: 3000\r\n\r\n${"q".repeat(3000)}`, 700);
    observed.reply(chunked("first ", "second"), 9);
    expect(observed.requests[0]?.detail).toEqual({
      target: "/a?b=c",
      requestHeaders: [
        ["cookie", "x=y"],
        ["content-length", "3000"],
      ],
      responseHeaders: [["transfer-encoding", "chunked"]],
      requestBody: Buffer.alloc(1024, "q"),
      responseBody: Buffer.from("first second"),
    });
  });

  it("terminates on garbage, within bounds", () => {
    const random = new SeededRandom(21);
    const parts = [
      "GET /a HTTP/1.1\r\n",
      "\r\n",
      "Content-Length: 5\r\n",
      "Transfer-Encoding: chunked\r\n",
      "HTTP/1.1 200 OK\r\n",
      "5\r\nhello\r\n",
      "0\r\n\r\n",
      "garbage",
      "\u0000\u0001",
      "ZZZZ",
      "HTTP/1.1 100 C\r\n\r\n",
    ];
    const observed = observer("client", true);
    for (let round = 0; round < 20_000; round++) {
      const bytes = Buffer.from(Array.from({ length: 1 + random.below(6) }, () => random.pick(parts)).join(""), "latin1");
      const chunk = { bytes, fullLength: bytes.length + (random.below(10) === 0 ? random.below(5000) : 0), atNs: 1000 + round, startNs: 0 };
      if (random.below(2)) observed.decoder.onRequestBytes(chunk);
      else observed.decoder.onReplyBytes(chunk);
      if (random.below(100) === 0) observed.decoder.onIdle();
    }
    observed.decoder.onClose(1);
    expect(observed.requests.length).toBeGreaterThan(500);
    expect(observed.requests.every(({ durationNs, status }) => durationNs >= 0 && /^(?:\d{3}|no-reply)$/.test(status))).toBe(true);
    const endless = observer();
    for (let round = 0; round < 100; round++) endless.request("A".repeat(10_000));
    endless.request(`GET /a HTTP/1.1\r\n${"x: y\r\n".repeat(10_000)}`);
    expect(endless.requests).toHaveLength(0);
  });
});
