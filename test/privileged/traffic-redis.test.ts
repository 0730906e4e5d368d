import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { type RunningServer, startRedis } from "../support/database-servers.ts";
import { RequestObserver } from "../support/request-observer.ts";
import { waitFor } from "../support/wait-for.ts";

describe("Redis at sockets", () => {
  let server: RunningServer | undefined;

  beforeAll(async () => {
    if (probesSkipReason("redis-server") === undefined) server = await startRedis();
  });

  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
  });

  beforeEach((context) => {
    const reason = probesSkipReason("redis-server");
    context.skip(reason !== undefined, reason);
  });

  const benchmark = (...args: string[]) => spawnSync("redis-benchmark", ["-p", String(server?.port), "-q", ...args], { encoding: "utf8" });
  const cli = (...args: string[]) => spawnSync("redis-cli", ["-p", String(server?.port), ...args], { encoding: "utf8" });

  it("counts as many commands per verb as redis-benchmark sent", async () => {
    const port = server?.port ?? 0;
    await using observer = await RequestObserver.open();
    benchmark("-n", "400", "-c", "4", "-t", "set,get,lpush");
    await observer.waitForCount(port, 1200);
    for (const role of ["server", "client"] as const) {
      const counts = observer.counts(port, role);
      expect([counts["SET SET"], counts["GET GET"], counts["LPUSH LPUSH"]]).toEqual([400, 400, 400]);
    }
    expect(observer.of(port, "server").every(({ pid }) => pid === server?.pid)).toBe(true);
  });

  it("reports errors by their first word", async () => {
    const port = server?.port ?? 0;
    await using observer = await RequestObserver.open();
    cli("SET", "text", "x");
    cli("LPUSH", "text", "x");
    cli("NOSUCHCOMMAND");
    await observer.waitForCount(port, 3);
    for (const role of ["server", "client"] as const) {
      expect(observer.counts(port, role)).toMatchObject({ "SET SET": 1, "LPUSH LPUSH WRONGTYPE": 1, "NOSUCHCOMMAND NOSUCHCOMMAND ERR": 1 });
    }
    expect(observer.of(port, "client").filter(({ isError }) => isError).length).toBe(2);
  });

  it("counts pipelined commands individually", async () => {
    const port = server?.port ?? 0;
    await using observer = await RequestObserver.open();
    benchmark("-n", "300", "-c", "2", "-P", "10", "-t", "incr");
    await observer.waitForCount(port, 300);
    for (const role of ["server", "client"] as const) expect(observer.counts(port, role)["INCR INCR"]).toBe(300);
  });

  it.each([
    [3, 10],
    // The server writes up to 80 KB at once, scattered, of which 32 KiB are copied.
    [5_000, 16],
    [50_000, 8],
    [200, 200],
  ])("measures pipelined replies of %i bytes, %i at a time", async (size, pipelined) => {
    const port = server?.port ?? 0;
    const count = pipelined * 10;
    cli("SET", "key:__rand_int__", "x".repeat(size));
    await using observer = await RequestObserver.open();
    benchmark("-n", String(count), "-c", "2", "-P", String(pipelined), "-t", "get");
    await observer.waitForCount(port, count);
    for (const role of ["server", "client"] as const) {
      const groups = observer.of(port, role).filter(({ method }) => method === "GET");
      expect(groups.reduce((sum, group) => sum + group.count, 0)).toBe(count);
      const bytes = groups.reduce((sum, { responseBytes }) => sum + responseBytes, 0);
      expect(bytes / count).toBe(`$${size}\r\n`.length + size + 2);
    }
  });

  it("counts all commands of a long pipeline that the server reads in pieces of 20 KiB", async () => {
    const port = server?.port ?? 0;
    await using observer = await RequestObserver.open();
    const commands = Array.from({ length: 3_000 }, (_, index) => `*3\r\n$3\r\nSET\r\n$4\r\n${1_000 + index}\r\n$2\r\nxx\r\n`);
    spawnSync("redis-cli", ["-p", String(port), "--pipe"], { input: commands.join(""), encoding: "utf8" });
    await observer.waitForCount(port, 3_000);
    for (const role of ["server", "client"] as const) expect(observer.counts(port, role)["SET SET"]).toBe(3_000);
  });

  it("handles values that need several writes", async () => {
    const port = server?.port ?? 0;
    await using observer = await RequestObserver.open();
    benchmark("-n", "20", "-c", "1", "-d", "300000", "-t", "set");
    await observer.waitForCount(port, 20);
    for (const role of ["server", "client"] as const) {
      expect(observer.counts(port, role)["SET SET"]).toBe(20);
      // One group per CPU and poll.
      const bytes = observer.of(port, role).map(({ method, requestBytes }) => (method === "SET" ? requestBytes : 0));
      expect(bytes.reduce((sum, one) => sum + one, 0)).toBeGreaterThan(20 * 300_000);
    }
  });

  it("does not count replication traffic as requests", async () => {
    const port = server?.port ?? 0;
    await using replica = await startRedis();
    await using observer = await RequestObserver.open();
    const ask = (...args: string[]) => spawnSync("redis-cli", ["-p", String(replica.port), ...args], { encoding: "utf8" }).stdout;
    // Otherwise the replica writes the snapshot to a file first.
    ask("CONFIG", "SET", "repl-diskless-load", "swapdb");
    ask("REPLICAOF", "127.0.0.1", String(port));
    await waitFor("the replica", () => ask("INFO", "replication").includes("master_link_status:up"), { timeoutMs: 20_000 });
    benchmark("-n", "500", "-c", "2", "-t", "set");
    // The replica acknowledges its offset once a second.
    const offset = () => /slave0:.*offset=(\d+)/.exec(cli("INFO", "replication").stdout)?.[1];
    await waitFor("the replica to have it all", () => Number(offset()) > 500 * 40, { timeoutMs: 20_000 });
    benchmark("-n", "10", "-c", "1", "-t", "incr");
    await waitFor("the last records", () => {
      observer.look(true);
      return (observer.counts(port, "server")["INCR INCR"] ?? 0) >= 10;
    });
    const counts = observer.counts(port, "server");
    expect([counts["SET SET"], counts["PSYNC PSYNC"]]).toEqual([500, 1]);
    expect(counts["REPLCONF REPLCONF"]).toBe(2);
    const asked = observer.of(port, "client").filter(({ pid }) => pid === replica.pid);
    expect(asked.map(({ method, count }) => `${method} ${count}`).toSorted()).toEqual(["PING 1", "PSYNC 1", "REPLCONF 2"]);
  });
});
