import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { type RunningServer, startPostgres } from "../support/database-servers.ts";
import { RequestObserver } from "../support/request-observer.ts";

const select = "SELECT SELECT abalance FROM pgbench_accounts WHERE aid = ?";

describe("Postgres at sockets", () => {
  let server: RunningServer | undefined;

  const connection = () => ["-h", "127.0.0.1", "-p", String(server?.port), "-U", "postgres"];
  const bench = (...args: string[]) => spawnSync("pgbench", [...connection(), ...args, "postgres"], { encoding: "utf8" });
  const psql = (...statements: string[]) =>
    spawnSync("psql", [...connection(), ...statements.flatMap((text) => ["-c", text]), "postgres"], { encoding: "utf8" });

  beforeAll(async () => {
    if (probesSkipReason("postgres", "pgbench", "psql") !== undefined) return;
    server = await startPostgres();
    bench("-i", "-q");
  });

  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
  });

  beforeEach((context) => {
    const reason = probesSkipReason("postgres", "pgbench", "psql");
    context.skip(reason !== undefined, reason);
  });

  it.each(["simple", "extended", "prepared"])("counts statements as pgbench sent them (%s)", async (mode) => {
    const port = server?.port ?? 0;
    await using observer = await RequestObserver.open();
    expect(bench("-n", "-S", "-M", mode, "-t", "100", "-c", "2").stdout).toContain("200/200");
    await observer.waitForCount(port, 200);
    for (const role of ["server", "client"] as const) expect(observer.counts(port, role)[select]).toBe(200);
  });

  it("reports errors by SQLSTATE, without literals", async () => {
    const port = server?.port ?? 0;
    await using observer = await RequestObserver.open();
    psql("select 1/0", "select * from nowhere where name = 'hidden-text'", "select 'hidden-text', 42 from pgbench_branches");
    await observer.waitForCount(port, 3);
    for (const role of ["server", "client"] as const) {
      const counts = observer.counts(port, role);
      expect(Object.keys(counts).filter((key) => key.endsWith(" 22012")).length).toBe(1);
      expect(Object.keys(counts).filter((key) => key.endsWith(" 42P01")).length).toBe(1);
      expect(JSON.stringify(counts)).not.toContain("hidden-text");
    }
    expect(observer.of(port, "server").filter(({ isError }) => isError).length).toBe(2);
  });

  it("counts statements under one fingerprint, regardless of the signs of numbers", async () => {
    const port = server?.port ?? 0;
    await using observer = await RequestObserver.open();
    const signed = (index: number) => [1, 2, 4, 8, 16].map((bit) => ((index & bit) === 0 ? "5" : "-5")).join(", ");
    const statements = Array.from({ length: 32 }, (_, index) => `select ${signed(index)} = (${signed(index)}) from pgbench_branches`);
    psql(...statements.map((text) => text.replace(/select .* =/, "select 1 where (1, 2, 3, 4, 5) =")));
    await observer.waitForCount(port, 32);
    for (const role of ["server", "client"] as const) {
      const groups = observer.of(port, role);
      expect(new Set(groups.map(({ route }) => route)).size).toBe(1);
      // One kind per processor and poll.
      expect(Math.max(...groups.map(({ count }) => count))).toBeGreaterThanOrEqual(8);
    }
  });

  it("tolerates COPY in both directions", async () => {
    const port = server?.port ?? 0;
    await using observer = await RequestObserver.open();
    const input = Array.from({ length: 2000 }, (_, index) => `Q${index}\n`).join("");
    spawnSync("psql", [...connection(), "-c", "create table lines (line text)", "-c", "copy lines from stdin", "postgres"], { input });
    psql("copy lines to stdout", "select 1");
    await observer.waitForCount(port, 4);
    for (const role of ["server", "client"] as const) {
      const total = Object.values(observer.counts(port, role)).reduce((sum, count) => sum + count, 0);
      expect(total).toBe(4);
    }
  });

  /** Sends simple queries on one connection. */
  const run = (statements: readonly string[]) =>
    spawnSync("psql", [...connection(), "-qAt", "-o", "/dev/null", ...statements.flatMap((text) => ["-c", text]), "postgres"], {
      encoding: "utf8",
    });
  const total = (observer: RequestObserver, role: "server" | "client", isError: boolean) =>
    observer
      .of(server?.port ?? 0, role)
      .filter((group) => group.isError === isError)
      .reduce((sum, { count, responseBytes }) => ({ count: sum.count + count, responseBytes: sum.responseBytes + responseBytes }), {
        count: 0,
        responseBytes: 0,
      });

  // Read boundaries: 1 KiB for Coral's first read, 4 KiB per piece, 8 KiB per write of the server, 16 KiB per read of libpq.
  const limits = [1024, 4096, 8192, 16_384, 32_768];
  const sizes = [...limits.flatMap((limit) => [-64, -33, -12, -6, -5, -3, 0, 1, 5, 40].map((more) => limit + more)), 100_000, 1_000_000];

  it.each([
    ["an error", "E"],
    ["the end", "Z"],
  ])("does not mistake part of a long row for %s", async (_what, letter) => {
    await using observer = await RequestObserver.open();
    expect(run(sizes.map((size) => `select repeat('${letter}', ${size})`)).stderr).toBe("");
    await observer.waitForCount(server?.port ?? 0, sizes.length);
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    for (const role of ["server", "client"] as const) {
      expect(total(observer, role, true).count).toBe(0);
      expect(total(observer, role, false).count).toBe(sizes.length);
      expect(total(observer, role, false).responseBytes).toBeGreaterThan(bytes);
    }
  });

  it.each([
    ["an error", "E", "C1234"],
    ["the end", "Z", "Index"],
  ])("does not mistake a column of five letters for %s, wherever rows are split", async (_what, letter, word) => {
    await using observer = await RequestObserver.open();
    const rows = 3000;
    const statements = Array.from({ length: 24 }, (_, size) => {
      return `select repeat('.', ${size}) || '${letter}', '${word}' from generate_series(1, ${rows})`;
    });
    expect(run(statements).stderr).toBe("");
    await observer.waitForCount(server?.port ?? 0, statements.length);
    // Type and length of a row, the number of columns, and their lengths.
    const bytes = statements.reduce((sum, _, size) => sum + rows * (size + 1 + word.length + 15), 0);
    for (const role of ["server", "client"] as const) {
      expect(total(observer, role, true).count).toBe(0);
      expect(total(observer, role, false).count).toBe(statements.length);
      expect(total(observer, role, false).responseBytes).toBeGreaterThan(bytes);
    }
  });

  it("finds an error after rows of any number and length", async () => {
    await using observer = await RequestObserver.open();
    const ends = [1, 9, 10, 11, 100, 4000];
    const lengths = [0, 100, 1020, 9000];
    const statements = ends.flatMap((end) =>
      lengths.map((length) => `select repeat('x', ${length}), 1 / (${end} - i) from generate_series(1, ${end}) i`),
    );
    for (const statement of statements) run([statement]);
    await observer.waitForCount(server?.port ?? 0, statements.length);
    for (const role of ["server", "client"] as const) {
      expect(total(observer, role, false).count).toBe(0);
      expect(observer.of(server?.port ?? 0, role).reduce((sum, { status, count }) => sum + (status === "22012" ? count : 0), 0)).toBe(
        statements.length,
      );
    }
  });

  const message = (type: string, body: string) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(4 + Buffer.byteLength(body));
    return Buffer.concat([Buffer.from(type), length, Buffer.from(body)]);
  };

  /** A client in a separate process, because the test process is not observed: one write per query, without waiting for responses. */
  const client = `
    const { once } = require("node:events");
    const [port, times, startup, ...writes] = process.argv.slice(1);
    const socket = require("node:net").connect({ port, host: "127.0.0.1", noDelay: true }).setEncoding("latin1");
    let answer = "";
    const isReady = async (count) => {
      while (answer.split("Z\\0\\0\\0\\x05").length <= count) answer += (await once(socket, "data"))[0];
    };
    (async () => {
      socket.write(startup, "base64");
      await isReady(1);
      for (const write of writes) socket.write(write, "base64");
      await isReady(1 + Number(times));
      socket.end();
    })();`;
  const pipe = (writes: readonly Buffer[], times: number) => {
    const startup = message("", "\0\x03\0\0user\0postgres\0\0");
    const args = [server?.port, times, ...[startup, ...writes].map((write) => write.toString("base64"))];
    expect(spawnSync(process.execPath, ["-e", client, ...args.map(String)], { timeout: 10_000, encoding: "utf8" }).status).toBe(0);
  };

  it("matches pipelined simple queries with their responses", async () => {
    const port = server?.port ?? 0;
    await using observer = await RequestObserver.open();
    const texts = ["select 1/0", "select 1 as one", "select nowhere", "select 2 as two"];
    pipe(
      texts.map((text) => message("Q", `${text}\0`)),
      texts.length,
    );
    await observer.waitForCount(port, texts.length);
    for (const role of ["server", "client"] as const) {
      const statuses = observer.of(port, role).flatMap(({ status, count }) => Array.from({ length: count }, () => status));
      expect(statuses.toSorted()).toEqual(["", "", "22012", "42703"]);
      const counts = observer.counts(port, role);
      expect(counts["SELECT select ? as two"]).toBe(1);
      expect(counts["SELECT select nowhere 42703"]).toBe(1);
    }
  });

  it("counts every execution of a pipeline that ends in one Sync", async () => {
    const port = server?.port ?? 0;
    await using observer = await RequestObserver.open();
    const steps = ["select 7 as a", "select 8 as b", "select 1/0 as c", "select 9 as d"].map((text) =>
      Buffer.concat([message("P", `\0${text}\0\0\0`), message("B", "\0\0\0\0\0\0\0\0"), message("E", "\0\0\0\0\0")]),
    );
    pipe([...steps, message("S", "")], 1);
    await observer.waitForCount(port, steps.length);
    for (const role of ["server", "client"] as const) {
      expect(observer.counts(port, role)).toEqual({
        "SELECT select ? as a": 1,
        "SELECT select ? as b": 1,
        "SELECT select ?/? as c 22012": 1,
        "SELECT select ? as d 22012": 1,
      });
    }
  });
});
