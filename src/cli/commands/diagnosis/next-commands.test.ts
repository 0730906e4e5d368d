import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { parseServiceSpec } from "../../../config/index.ts";
import { connectLine, runDiagnosis } from "../../../tools/index.ts";
import { buildProgram, type ParsedCommand } from "../../build-program.ts";
import type { CliIo } from "../../output/cli-io.ts";

const times = {
  before: [{ fromMs: 0, untilMs: 3_600_000 }],
  after: { fromMs: 3_660_000, untilMs: 3_960_000 },
  isOnsetFound: true,
  isOver: false,
};
const pair = { before: spread(), after: spread() };
const host = {
  agentId: "a1",
  hostname: "web 1",
  cores: 2,
  ...{ busy: pair, steal: pair, cpuWait: pair, ioWait: pair, memoryWait: pair, retransmits: pair, disks: [], programs: [] },
};
const noFacts = { measures: [], operations: [], links: [], steps: [], calls: [], changes: [], limits: [] };
/** Names that a shell or the parser could split. */
const services = ["stock", "postgres:5432", "worker (billing's)"];
const kinds = [
  ...([
    "resource",
    "slow",
    "failing",
    "slow-code",
    "slow-link",
    "changed-path",
    "more-traffic",
    "host",
    "hot-code",
    "blocked-thread",
  ] as const),
  ...(["waiting", "disk-wait", "packet-loss", "cpu-limit", "out-of-memory", "down", "slow-statement", "missing-index"] as const),
  ...(["lock-wait", "pool-exhausted", "connections-full", "evictions"] as const),
];

function spread() {
  return { count: 0, q05: 0, q25: 0, median: 0, q75: 0, q95: 0 };
}

interface Shown {
  next: { command: string; why: string }[];
  evidence: string[];
}

async function shown(
  kind: (typeof kinds)[number],
  service: string,
  pointer = "GET /",
  externals: string[] = [],
  ran: string[] = [service],
): Promise<Shown> {
  const figures = { name: "duration of requests", unit: "us", before: 1, after: 2 };
  const one = { service, kind, score: 1, rawScore: 1, pointer, statement: "", figures, explainedBy: "" };
  const cause = { service, kind, pointer, score: 1, confidence: 0.8, evidence: [one], chain: [service], change: null };
  const { result, evidence } = await runDiagnosis(
    times,
    { service: null, symptom: null },
    async () => ({ ...times, ...noFacts, externals, hosts: [{ ...host, services: ran }] }),
    async () => ({ diagnosis: { causes: [cause], ruledOut: [], nearest: null, services: 1 }, next: [] }),
  );
  return { next: result.next, evidence: evidence.flatMap(({ commands }) => commands) };
}

/** Parses a line as a shell would, then as the CLI does. */
async function parsed(line: string): Promise<ParsedCommand> {
  const words = execFileSync("sh", ["-c", `printf '%s\\0' ${line.replace("<path>", "account")}`], { encoding: "utf8" }).split("\0");
  const found: ParsedCommand[] = [];
  const quiet = { write: () => true };
  const io: CliIo = { stdout: quiet, stderr: quiet, stdin: (async function* () {})(), env: {}, signal: new AbortController().signal };
  const argv = words.slice(1, -1);
  await buildProgram(io, async (command) => void found.push(command), argv).parseAsync(argv, { from: "user" });
  const [command] = found;
  if (command === undefined) throw new Error(`no command in ${line}`);
  return command;
}

describe("next steps of a diagnosis", () => {
  it.each(kinds)("%s: offer no profile and no capture of a service that only sends spans", async (kind) => {
    const { next, evidence } = await shown(kind, "stock", "GET /", [], []);
    expect(next.length).toBeGreaterThan(0);
    for (const command of [...next.map((step) => step.command), ...evidence]) expect(command).not.toMatch(/query profile|capture/);
  });

  it.each(kinds)("%s: are valid commands, each with its cost", async (kind) => {
    for (const service of services) {
      const { next, evidence } = await shown(kind, service);
      expect(next.length).toBeGreaterThan(0);
      for (const { why } of next) expect(why).toMatch(/.; (?:reads stored data|about 1%|one |runs ps once)/);
      for (const line of [...next.map(({ command }) => command), ...evidence]) {
        const { path, args, values } = await parsed(line);
        const named = [...args, values["service"], values["peer"]];
        if (path.join(" ") !== "query host" && path[0] !== "exec") expect(named, line).toContain(service);
      }
    }
  });

  it.each([
    ["hot-code", "GET /search", "coral query profile stock --since 10m"],
    ["slow-statement", "SELECT * FROM a WHERE b = ?", "coral query database stock --statement 'SELECT * FROM a WHERE b = ?'"],
    ["slow-statement", "HGETALL", "coral query database stock"],
    ["disk-wait", "disk sdb", "coral query host 'web 1' --since 10m"],
    ["resource", "CPU used", "coral query profile stock --since 10m"],
    ["resource", "jobs.done", "coral query metrics --service stock --since 10m"],
    ["down", "its process ended", "coral events --service stock --since 10m"],
  ] as const)("%s of %s begin with %s", async (kind, pointer, command) => {
    expect((await shown(kind, "stock", pointer)).next[0]?.command).toBe(command);
  });

  it("query the callers of a service that no agent observes", async () => {
    const { next } = await shown("slow", "api.example.com", "GET /", ["api.example.com"]);
    for (const { command } of next) expect((await parsed(command)).values, command).toMatchObject({ peer: "api.example.com" });
  });
});

describe("connectLine()", () => {
  it.each([
    ["postgres", 5432, "postgres", 5432],
    ["postgres:5432", 5432, "postgres", 5432],
    ["postgres:5433", undefined, "postgres", 5433],
    ["postgres (/srv/billing's)", 6000, "postgres", 6000],
    ["python db.py", 7000, "python-db.py", 7000],
    [`${"a".repeat(62)}-b`, 80, "a".repeat(62), 80],
    ["(x)", 80, "x", 80],
  ])("%s on %s is connected as %s", async (service, port, name, expected) => {
    const { path, args, values } = await parsed(connectLine(service, port));
    expect([...path, values["credentialsFile"]]).toEqual(["connect", "account"]);
    expect(args.map((word) => parseServiceSpec(word ?? ""))).toEqual([{ name, port: expected }]);
  });
});
