import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type RunningServer, startPostgres } from "../support/database-servers.ts";
import { RequestObserver } from "../support/request-observer.ts";
import { whyNoProbes } from "../support/why-no-bpf.ts";

const select = "SELECT SELECT abalance FROM pgbench_accounts WHERE aid = ?";

describe("Postgres at sockets", () => {
  let server: RunningServer | undefined;

  const connection = () => ["-h", "127.0.0.1", "-p", String(server?.port), "-U", "postgres"];
  const bench = (...args: string[]) => spawnSync("pgbench", [...connection(), ...args, "postgres"], { encoding: "utf8" });
  const psql = (...statements: string[]) =>
    spawnSync("psql", [...connection(), ...statements.flatMap((text) => ["-c", text]), "postgres"], { encoding: "utf8" });

  beforeAll(async () => {
    if (whyNoProbes("postgres", "pgbench", "psql") !== undefined) return;
    server = await startPostgres();
    bench("-i", "-q");
  });

  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
  });

  beforeEach((context) => {
    const reason = whyNoProbes("postgres", "pgbench", "psql");
    context.skip(reason !== undefined, reason);
  });

  it.each(["simple", "extended", "prepared"])("counts statements as pgbench sent them (%s)", async (mode) => {
    const port = server?.port ?? 0;
    await using observer = await RequestObserver.open();
    expect(bench("-n", "-S", "-M", mode, "-t", "100", "-c", "2").stdout).toContain("200/200");
    await observer.waitForCount(port, 200);
    for (const role of ["server", "client"] as const) expect(observer.counts(port, role)[select]).toBe(200);
  });

  it("tells errors by SQLSTATE, and no literal", async () => {
    const port = server?.port ?? 0;
    await using observer = await RequestObserver.open();
    psql("select 1/0", "select * from nowhere where name = 'tell-nobody'", "select 'tell-nobody', 42 from pgbench_branches");
    await observer.waitForCount(port, 3);
    for (const role of ["server", "client"] as const) {
      const counts = observer.counts(port, role);
      expect(Object.keys(counts).filter((key) => key.endsWith(" 22012")).length).toBe(1);
      expect(Object.keys(counts).filter((key) => key.endsWith(" 42P01")).length).toBe(1);
      expect(JSON.stringify(counts)).not.toContain("tell-nobody");
    }
    expect(observer.of(port, "server").filter(({ isError }) => isError).length).toBe(2);
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
});
