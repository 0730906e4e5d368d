import { describe, expect, it } from "vitest";
import { startCpuClock } from "../../../base/cpu-time.fixture.ts";
import { headerOf, hostName, methodName, parseRequestHead, parseResponseHead } from "./http1-head.ts";

const bytes = (text: string): Uint8Array => Buffer.from(text, "latin1");

describe("parseRequestHead()", () => {
  it("parses a complete head", () => {
    const text = "POST /a/1?b=c HTTP/1.1\r\nHost: Shop.Example:8080\r\nContent-Length: 2\r\nX-Empty:\r\n\r\n{}";
    expect(parseRequestHead(bytes(text))).toEqual({
      method: "POST",
      target: "/a/1?b=c",
      isTargetCut: false,
      version: "1.1",
      host: "shop.example",
      headers: [
        ["host", "Shop.Example:8080"],
        ["content-length", "2"],
        ["x-empty", ""],
      ],
      isComplete: true,
      headBytes: text.length - 2,
    });
  });

  it.each([
    ["\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "/", "a"],
    ["GET / HTTP/1.0\nHost: a.b.\n\n", "GET", "/", "a.b"],
    ["GET http://U:p@Real.example:81/x HTTP/1.1\r\nHost: other\r\n\r\n", "GET", "http://U:p@Real.example:81/x", "real.example"],
    ["CONNECT db.example:5432 HTTP/1.1\r\n\r\n", "CONNECT", "db.example:5432", "db.example"],
    ["OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "OPTIONS", "*", "[::1]"],
    ["GET  /two\tHTTP/1.1\r\nhost :  a \r\n\r\n", "GET", "/two", "a"],
    ["M-SEARCH * HTTP/1.1\r\nHOST:239.255.255.250:1900\r\n\r\n", "M-SEARCH", "*", "239.255.255.250"],
    ["GET /x HTTP/1.1\r\nHost: evil\u0001host\r\n\r\n", "GET", "/x", null],
  ])("reads %j", (text, method, target, host) => {
    expect(parseRequestHead(bytes(text))).toMatchObject({ method, target, host, isTargetCut: false, isComplete: true });
  });

  it("joins folded lines, skips lines without a colon", () => {
    const head = parseRequestHead(bytes("GET / HTTP/1.1\r\nX-A: one\r\n\ttwo\r\nnonsense\r\n: x\r\nX-B: 3\r\n\r\n"));
    expect(head?.headers).toEqual([
      ["x-a", "one two"],
      ["x-b", "3"],
    ]);
  });

  it("reports where a head is truncated", () => {
    const text = "GET /users/42 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n";
    for (let length = 0; length < text.length; length++) {
      const head = parseRequestHead(bytes(text.slice(0, length)));
      if (length < 4) expect(head).toBeNull();
      else {
        expect(head).toMatchObject({ method: "GET", isComplete: false, isTargetCut: length <= "GET /users/42".length && length > 4 });
        expect(text.slice(4).startsWith(head?.target ?? "-")).toBe(true);
        for (const [name, value] of head?.headers ?? []) expect(text.toLowerCase()).toContain(`${name}: ${value.toLowerCase()}\r\n`);
      }
    }
  });

  it.each([
    "",
    "\r\n",
    "HTTP/1.1 200 OK\r\n\r\n",
    "GET\r\n",
    "GET /\r\nHost: a\r\n\r\n",
    "\u0016\u0003\u0001",
    `${"A".repeat(30)} / HTTP/1.1\r\n\r\n`,
    "*3\r\n$3\r\nSET\r\n",
  ])("refuses %j", (text) => {
    expect(parseRequestHead(bytes(text))).toBeNull();
  });

  it("keeps at most 128 headers", () => {
    const head = parseRequestHead(bytes(`GET / HTTP/1.1\r\n${"a: b\r\n".repeat(1000)}\r\n`));
    expect(head?.headers.length).toBe(128);
  });
});

describe("parseResponseHead()", () => {
  it("reads status and headers", () => {
    expect(parseResponseHead(bytes("HTTP/1.1 404 Not Found\r\nServer: nginx\r\nSet-Cookie: a\r\nset-cookie: b\r\n\r\nbody"))).toEqual({
      status: 404,
      version: "1.1",
      headers: [
        ["server", "nginx"],
        ["set-cookie", "a"],
        ["set-cookie", "b"],
      ],
      isComplete: true,
      headBytes: 71,
    });
  });

  it("parses a head that is truncated after the status", () => {
    expect(parseResponseHead(bytes("HTTP/1.0 200"))).toMatchObject({ status: 200, isComplete: false });
  });

  it.each(["HTTP/1.1 20", "HTTP/1.1 2000 OK\r\n", "HTTP/1.1 099 OK\r\n", "HTTP/x 200 OK\r\n", "GET / HTTP/1.1\r\n", ""])(
    "refuses %j",
    (text) => {
      expect(parseResponseHead(bytes(text))).toBeNull();
    },
  );
});

describe("heads of garbage", () => {
  it("are rejected or truncated, in bounded time", () => {
    let seed = 99;
    const next = (): number => {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff;
      return seed >> 8;
    };
    const parts = ["GET ", " HTTP/1.1", "\r\n", "\n", " ", ":", "HTTP/1.1 200 ", "Host: x", "\u0000", "é", "/a", "\t", "A".repeat(50)];
    for (let round = 0; round < 3000; round++) {
      const data = bytes(Array.from({ length: next() % 40 }, () => parts[next() % parts.length]).join(""));
      const request = parseRequestHead(data);
      const response = parseResponseHead(data);
      expect((request?.headBytes ?? 0) <= data.length && (response?.headBytes ?? 0) <= data.length).toBe(true);
      expect(request !== null && response !== null).toBe(false);
    }
    const cpuMs = startCpuClock();
    parseRequestHead(bytes(`GET / HTTP/1.1\r\n${" ".repeat(2_000_000)}`));
    parseRequestHead(bytes("\n ".repeat(1_000_000)));
    expect(cpuMs()).toBeLessThan(2_000);
  });
});

describe("headerOf(), hostName(), methodName()", () => {
  it("find headers, normalise hosts and group methods", () => {
    expect(headerOf([["a", "1"]], "a")).toBe("1");
    expect(headerOf([], "a")).toBeUndefined();
    expect(["a.b:1", "A", "u@h", "-x", "a b", "", "[::1]", "x".repeat(300)].map(hostName)).toEqual([
      "a.b",
      "a",
      "h",
      null,
      null,
      null,
      "[::1]",
      null,
    ]);
    expect(["get", "PROPFIND", "HACK"].map(methodName)).toEqual(["GET", "PROPFIND", "OTHER"]);
  });

  it("reads targets in raw UTF-8, and others as Latin-1", () => {
    const targetOf = (bytes: Buffer) =>
      parseRequestHead(Buffer.concat([Buffer.from("GET "), bytes, Buffer.from(" HTTP/1.1\r\n\r\n")]))?.target;
    expect(targetOf(Buffer.from("/produits/été/日本語"))).toBe("/produits/été/日本語");
    expect(targetOf(Buffer.from("/caf\u00e9\u0093", "latin1"))).toBe("/caf\u00e9\u0093");
    const cut = parseRequestHead(Buffer.from("GET /menü/日本").subarray(0, -1));
    expect(cut).toMatchObject({ target: "/menü/日", isTargetCut: true });
  });
});
