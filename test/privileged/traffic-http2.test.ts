/** HTTP/2 and gRPC as the kernel and the decoder see them, against what the clients know they asked. */

import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Http2Observer } from "../support/http2-observer.ts";
import { waitFor } from "../support/wait-for.ts";

const talker = fileURLToPath(new URL("../support/http2-talker.mjs", import.meta.url));

function missing(): string | undefined {
  if (process.getuid?.() !== 0) return "needs root";
  const capabilities = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "0"}`);
  return ((capabilities >> 39n) & 1n) === 0n ? "root lacks CAP_BPF here" : undefined;
}

class Talker {
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #lines: string[] = [];

  constructor(...args: string[]) {
    this.#child = spawn(process.execPath, [talker, ...args], { stdio: ["pipe", "pipe", "inherit"] });
    this.pid = this.#child.pid ?? 0;
    createInterface({ input: this.#child.stdout! }).on("line", (line) => this.#lines.push(line));
    talkers.push(this);
  }

  async line(): Promise<string> {
    await waitFor("the talker", () => this.#lines.length > 0, { intervalMs: 5 });
    return this.#lines.shift()!;
  }

  async ask(path: string, count: number, parallel: number, bodyBytes = 0): Promise<void> {
    this.#child.stdin!.write(`${path} ${count} ${parallel} ${bodyBytes}\n`);
    expect(await this.line()).toBe("done");
  }

  end(): void {
    this.#child.kill("SIGKILL");
  }
}

const talkers: Talker[] = [];
let observer: Http2Observer | undefined;

async function start(
  kind: "" | "grpc-",
  before: (client: Talker) => Promise<void> = async () => {},
): Promise<{ server: Talker; client: Talker }> {
  const server = new Talker(`${kind}server`);
  const client = new Talker(`${kind}client`, await server.line());
  expect(await client.line()).toBe("ready");
  await before(client);
  return { server, client };
}

describe("HTTP/2 on sockets", () => {
  beforeEach((context) => {
    const reason = missing();
    context.skip(reason !== undefined, reason);
  });
  afterEach(async () => {
    for (const process of talkers.splice(0)) process.end();
    await observer?.[Symbol.asyncDispose]();
    observer = undefined;
  });

  it("counts every stream at both ends, many in parallel", async () => {
    observer = await Http2Observer.open();
    const { server, client } = await start("");
    await client.ask("/users/#", 3000, 100);
    await client.ask("/status/503", 20, 5);
    await client.ask("/orders", 200, 40, 50_000);
    await client.ask("/big", 50, 10);
    await client.ask("/reset", 10, 2);
    const routes = (errors: string): Record<string, number> => ({
      "http2 GET /users/{id} 200": 3000,
      "http2 GET /status/{id} 503 error": 20,
      "http2 POST /orders 200": 200,
      "http2 GET /big 200": 50,
      [`http2 GET /reset no-reply${errors}`]: 10,
    });
    await observer.settle(() => observer!.total(client.pid) >= 3280 && observer!.total(server.pid) >= 3280);
    expect(observer.counts(client.pid, "client")).toEqual(routes(" error"));
    expect(observer.counts(server.pid, "server")).toEqual(routes(" error"));
    expect(observer.losses).toEqual({});
    const orders = observer.requests.filter(({ pid, route }) => pid === server.pid && route === "/orders");
    for (const { requestBytes } of orders) expect(requestBytes).toBeGreaterThan(50_000);
    for (const { requestBytes } of orders) expect(requestBytes).toBeLessThan(50_400);
    expect(JSON.stringify(observer.requests)).not.toContain("tell-nobody");
  });

  it("counts what comes on connections that are older than the agent", async () => {
    const { server, client } = await start("", (early) => early.ask("/users/#", 50, 10));
    observer = await Http2Observer.open();
    await client.ask("/users/#", 500, 20);
    await client.ask("/status/404", 5, 1);
    await observer.settle(() => observer!.total(client.pid) >= 505 && observer!.total(server.pid) >= 505);
    expect(observer.counts(server.pid, "server")).toEqual({ "http2 GET /users/{id} 200": 500, "http2 GET /status/{id} 404": 5 });
    expect(observer.counts(client.pid, "client")).toEqual({ "http2 GET /users/{id} 200": 500, "http2 GET /status/{id} 404 error": 5 });
  });

  it("times what the server takes", async () => {
    observer = await Http2Observer.open();
    const { server, client } = await start("");
    await client.ask("/slow", 10, 1);
    await observer.settle(() => observer!.total(client.pid) >= 10 && observer!.total(server.pid) >= 10);
    for (const { durationNs, firstByteNs } of observer.requests) {
      expect(durationNs / 1e6).toBeGreaterThan(49);
      expect(durationNs / 1e6).toBeLessThan(250);
      expect(firstByteNs! / 1e6).toBeGreaterThan(49);
    }
  });

  it("counts gRPC calls with their status, one answer or many", async () => {
    observer = await Http2Observer.open();
    const { server, client } = await start("grpc-");
    await client.ask("/shop.v1.Cart/Buy", 500, 20);
    await client.ask("/shop.v1.Cart/Fail", 10, 2);
    await client.ask("/shop.v1.Cart/List", 30, 5);
    await client.ask("/shop.v1.Cart/Missing", 4, 1);
    const expected = {
      "grpc POST shop.v1.Cart/Buy 0": 500,
      "grpc POST shop.v1.Cart/Fail 13 error": 10,
      "grpc POST shop.v1.Cart/List 0": 30,
      "grpc POST shop.v1.Cart/Missing 12 error": 4,
    };
    await observer.settle(() => observer!.total(client.pid) >= 544 && observer!.total(server.pid) >= 544);
    expect(observer.counts(client.pid, "client")).toEqual(expected);
    expect(observer.counts(server.pid, "server")).toEqual(expected);
    expect(observer.losses).toEqual({});
  });

  it("counts gRPC calls on connections that are older than the agent", async () => {
    const { server, client } = await start("grpc-", (early) => early.ask("/shop.v1.Cart/Buy", 20, 5));
    observer = await Http2Observer.open();
    await client.ask("/shop.v1.Cart/Buy", 200, 10);
    await client.ask("/shop.v1.Cart/Fail", 10, 2);
    await observer.settle(() => observer!.total(client.pid) >= 210 && observer!.total(server.pid) >= 210);
    for (const [pid, role] of [
      [client.pid, "client"],
      [server.pid, "server"],
    ] as const) {
      expect(observer.counts(pid, role)).toEqual({ "grpc POST shop.v1.Cart/Buy unknown": 200, "grpc POST shop.v1.Cart/Fail 13 error": 10 });
    }
  });
});
