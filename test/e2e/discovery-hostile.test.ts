/** Processes that attack discovery, or whose arguments contain secrets. */

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../support/held-port.ts";
import { runCoral } from "../support/run-coral.ts";
import { waitFor } from "../support/wait-for.ts";
import { WatchedHost } from "../support/watched-host.ts";

let host: WatchedHost;
let directory: string;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "coral-hostile-"));
  host = await WatchedHost.start();
});
afterAll(async () => {
  await host?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true, force: true });
});

/** Fake secrets, each of a different kind. */
const secrets = {
  option: "hunter2-Option",
  nextWord: "tr0ub4dor-NextWord",
  url: "s3same-UrlPassword",
  mysql: "My5qlPa55word",
  bearer: "bearer-9f8e7d6c5b4a39281706f5e4",
  aws: "AKIAQ7ZZ2XEXAMPLE7QX",
  github: "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
  jwt: "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
  variable: "env-Passw0rd-Variable",
  headers: "header-Cr3dential-0aa1bb2cc3dd",
  dsn: "dsn-Passw0rd-9aa8bb",
};
const nastyText = "\u001b]0;owned\u0007\u001b[31mred\u0000\r\n\u009b2J\u202eevil\u0085".replaceAll("\0", "");
/** Control characters and bidirectional overrides. */
const controlCharacters = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/u;

function textsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsOf) : [];
}

function isBad(text: string): boolean {
  return controlCharacters.test(text) || Object.values(secrets).some((secret) => text.includes(secret));
}

describe("a hostile process", () => {
  it("puts no secret and no control character into stored rows and output", async () => {
    const port = await freePort();
    const file = join(directory, `wicked${"\u001b"}[31m.mjs`);
    writeFileSync(file, `import { createServer } from "node:net";\ncreateServer().listen(${port}, "127.0.0.1");\n`);
    const args = [
      ...[`--password=${secrets.option}`, "--api-token", secrets.nextWord, `postgres://app:${secrets.url}@db.internal/shop`],
      ...["mysql", `-p${secrets.mysql}`, `Authorization: Bearer ${secrets.bearer}`, secrets.aws, secrets.github, secrets.jwt, nastyText],
      // 1 MB in total: the kernel accepts at most 128 KiB per argument.
      ...Array.from({ length: 10 }, () => "x".repeat(100_000)),
    ];
    const env = {
      DATABASE_PASSWORD: secrets.variable,
      OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer ${secrets.headers}`,
      APP_DSN: `Server=db;User Id=app;Password=${secrets.dsn};`,
      OTEL_SERVICE_NAME: `wicked${nastyText}`,
      APP_NOTE: nastyText,
    };
    const program = host.spawn([process.execPath, file, ...args], { env });
    const found = await host.waitForProcess(port, program.pid);
    expect(found.service.service).toMatch(/wicked/);
    expect(found.commandLine).toContain("--password=");
    expect(Buffer.byteLength(found.commandLine ?? "")).toBeLessThanOrEqual(4_096);

    const tables = ["service_instance", "services", "service_instances", "agent_event", "connections", "endpoints"];
    for (const table of tables) {
      const rows = await host.colony.sql(`SELECT * FROM ${table}`);
      expect(rows.flatMap(textsOf).filter(isBad), table).toEqual([]);
    }
    const [row] = await host.colony.sql(`SELECT environment FROM service_instances WHERE port = ${port} AND pid = ${program.pid}`);
    expect(row?.["environment"]).toContain("OTEL_SERVICE_NAME");

    for (const command of ["network services", "services", "agent status", "network topology", "services -o wide", "events"]) {
      const { stdout, stderr } = await runCoral(command.split(" "), { home: host.home.path });
      expect(`${stdout}\n${stderr}`.split("\n").filter(isBad), command).toEqual([]);
    }
  });

  it("puts no secret into the files and logs of both daemons", () => {
    const { home, colony, agent } = host;
    const files = readdirSync(home.path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    expect(files.map((entry) => entry.name)).toEqual(expect.arrayContaining(["agent.duckdb", "colony.duckdb"]));
    const contents = files.map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1"));
    for (const text of [...contents, colony.output, agent.output]) {
      for (const [name, secret] of Object.entries(secrets)) expect(text.includes(secret), name).toBe(false);
    }
  });
});

describe("processes that come and go", () => {
  it("do not disturb the scans: 2,000 processes, some with a short-lived port", async () => {
    const scansBefore = await scanCount();
    const [port, perl] = [await freePort(), "use IO::Socket::INET; IO::Socket::INET->new(LocalAddr => q(127.0.0.1), Listen => 1)"];
    const steady = host.spawn([process.execPath, "-e", `require("net").createServer().listen(${port}, "127.0.0.1")`]);
    const script = `i=0; while [ $i -lt 2000 ]; do
        if [ $((i % 20)) = 0 ]; then perl -e '${perl}; select undef, undef, undef, 0.05' & else /bin/true & fi
        i=$((i + 1)); [ $((i % 50)) = 0 ] && wait; done; wait; echo finished`;
    const churn = host.spawn(["sh", "-c", script]);
    await churn.waitForOutput(/^finished$/m, 180_000);
    await waitFor("further scans", async () => (await scanCount()) >= scansBefore + 3);
    await host.waitForProcess(port, steady.pid);
    expect(host.agent.hasEnded).toBe(false);
    expect(host.agent.logLines().filter((line) => line["level"] === "error")).toEqual([]);
    expect((await host.agent.status()).notes.length).toBeLessThan(20);
  });

  async function scanCount(): Promise<number> {
    const [row] = await host.colony.sql('SELECT count(DISTINCT "time") AS scans FROM service_instance');
    return Number(row?.["scans"]);
  }
});
