/** Query commands against real daemons: host, SQL, services and events, with every output format, pipes, exit codes, colours and completion. */

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, symlinkSync } from "node:fs";
import { createServer } from "node:net";
import { hostname } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AgentDaemon, type ColonyDaemon, DaemonProcess, startAgent, startColony } from "../support/daemon.ts";
import { coralFile, coralJson, runCoral } from "../support/run-coral.ts";
import { type ProgramRun, runProgram } from "../support/run-program.ts";
import { cleanEnvironment, makeTestHome, type TestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

let home: TestHome;
let colony: ColonyDaemon;
let agent: AgentDaemon;
const listener = createServer();

const coral = (...args: string[]): Promise<ProgramRun> => runCoral(args, { home: home.path });
/** Runs a shell script with `coral` in PATH. */
const shell = (script: string): Promise<ProgramRun> =>
  runProgram("bash", ["-o", "pipefail", "-c", script], {
    env: { ...cleanEnvironment(home.path), PATH: `${join(home.path, "bin")}:${process.env["PATH"]}` },
  });

beforeAll(async () => {
  home = makeTestHome();
  mkdirSync(join(home.path, "bin"));
  symlinkSync(coralFile, join(home.path, "bin/coral"));
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  colony = await startColony({ home: home.path, config: "pull:\n  interval: 500ms\nsql:\n  timeout: 5s\n" });
  agent = await startAgent({ home: home.path, config: "host:\n  interval: 1s\nlabels:\n  zone: eu-1\n" });
  await waitFor("three samples", async () => Number((await colony.sql("SELECT count(*) AS n FROM host"))[0]?.["n"]) >= 3);
});
afterAll(async () => {
  listener.close();
  for (const resource of [agent, colony, home]) await resource[Symbol.asyncDispose]();
});

describe("coral query host", () => {
  it("shows every resource of this machine, and everything with -o wide", async () => {
    const { code, stdout, stderr } = await coral("query", "host");
    expect(code).toBe(0);
    expect(stderr).toMatch(/^note: \S+ joined at \S+ UTC: no data before that\n$/);
    expect(stdout).toMatch(new RegExp(`^${hostname()} +${agent.agentId} · healthy · \\d+ cores? · up `));
    for (const line of [
      /^ {2}cpu +\d/m,
      /^ {2}load +\d/m,
      /^ {2}memory +\d/m,
      /^ {2}tcp +\d+ established/m,
      /^ {2}processes$/m,
      /^ {2}network/m,
    ])
      expect(stdout).toMatch(line);
    const wide = await coral("query", "host", hostname(), "-o", "wide", "--since", "10m");
    expect(wide.stdout).toMatch(/^ {2}cores\n +CORE +BUSY +IOWAIT +STEAL/m);
    expect(wide.stdout).toMatch(/MOUNT +USED +LEFT +SIZE/);
    expect(wide.stdout).toMatch(/PID +NAME +CORES +RSS +THREADS +FILES +STATE +UID +EXECUTABLE/);
  });

  it("selects agents by id or part of the name, and lists the known agents when none matches", async () => {
    const { hosts } = await coralJson<{ hosts: { agentId: string; latest: { cpuCount: number } }[] }>(["query", "host", agent.agentId], {
      home: home.path,
    });
    expect(hosts).toHaveLength(1);
    expect(hosts[0]?.latest.cpuCount).toBeGreaterThan(0);
    const unknown = await coral("query", "host", "no-such-host");
    expect(unknown).toMatchObject({ code: 4, stdout: "" });
    expect(unknown.stderr).toContain(`Cannot find agent "no-such-host": `);
    expect(unknown.stderr).toContain(agent.agentId);
  });
});

describe("coral services and events", () => {
  it("list the services that listen, including this test", async () => {
    const { port } = listener.address() as { port: number };
    type Services = { services: { ports: { port: number | null }[]; agents: { pids: number[] }[] }[] };
    await waitFor("this test among the services", async () => {
      const { services } = await coralJson<Services>(["services"], { home: home.path });
      const own = services.find((service) => service.ports.some((item) => item.port === port));
      return own?.agents[0]?.pids.includes(process.pid) === true;
    });
    expect((await coral("services")).stdout).toMatch(/^SERVICE +PORTS +INSTANCES +STATUS +HEALTH +HOSTS\n/);
  });

  it("show that the agent joined", async () => {
    const { stdout } = await coral("events", "--agent", hostname());
    expect(stdout).toMatch(
      new RegExp(`info +agent-joined +${agent.agentId} +- +Agent ${agent.agentId} on host "${hostname()}" has joined`),
    );
    expect((await coral("events", "--kind", "no-such-kind")).stderr).toContain("No events in the last 1h");
  });
});

describe("coral query sql", () => {
  it("returns labels, times and big numbers unchanged", async () => {
    const { stdout } = await coral("query", "sql", "SELECT labels FROM agents", "-o", "json");
    expect(stdout).toContain("eu-1");
    expect((await coral("query", "sql", "SELECT 9007199254740993 AS big, NULL AS nothing", "-o", "csv")).stdout).toBe(
      "big,nothing\n9007199254740993,\n",
    );
    const views = await coral("query", "sql", "SHOW TABLES");
    expect(views.stdout).toMatch(/^host_process /m);
    expect(views.stderr).toMatch(/^\d+ rows in \d+ ms\n$/);
    const example = (await coral("query", "sql", "--help")).stdout.match(/query sql "(SELECT .*?)"/)?.[1] ?? "";
    expect((await coral("query", "sql", example)).code, example).toBe(0);
    expect((await runCoral(["query", "sql", "-", "-o", "csv"], { home: home.path, input: "SELECT 1 AS one\n" })).stdout).toBe("one\n1\n");
  });

  it.each([
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "COPY host TO '/tmp/coral-stolen.csv'",
    "ATTACH '/tmp/coral-stolen.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit = '100GB'",
    "SELECT current_setting('temp_directory')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM registry.tokens",
    "SELECT * FROM raw.host",
    "SELECT getenv('HOME')",
    "CREATE TABLE x AS SELECT 1",
    "DROP VIEW host",
    "DELETE FROM host",
    "SELECT 1; SELECT 2",
  ])("refuses %s", async (sql) => {
    const { code, stdout, stderr } = await coral("query", "sql", sql);
    expect(stdout).toBe("");
    expect(stderr).toMatch(/^error: Cannot run SQL: [^\n]+\n$/);
    expect(code).toBe(3);
    expect(existsSync("/tmp/coral-stolen.csv")).toBe(false);
  });

  it("limits rows, time and memory, and the colony keeps running", async () => {
    const many = await coral("query", "sql", "SELECT * FROM range(1000000000)", "--max-rows", "3");
    expect(many.stdout).toBe("range\n    0\n    1\n    2\n");
    expect(many.stderr).toContain("note: the result was cut after 3 rows");
    const endless = await coral("query", "sql", "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t");
    expect(endless.code).toBe(1);
    expect(endless.stderr).toMatch(/took longer than 5s|more memory/);
    const greedy = await coral("query", "sql", "SELECT list(x) FROM (SELECT a.range AS x FROM range(100000000) a)");
    expect(greedy.code).not.toBe(0);
    const wrong = await coral("query", "sql", "SELECT cpu_busy FROM host");
    expect(wrong.code).toBe(64);
    expect(wrong.stderr).toContain('Referenced column "cpu_busy" not found');
    expect((await coral("status")).code).toBe(0);
    expect(colony.rssBytes()).toBeLessThan(1024 ** 3);
  });
});

describe("output", () => {
  it("is available in every format from every command with data", async () => {
    for (const command of [
      ["status"],
      ["agent", "list"],
      ["agent", "status"],
      ["colony", "status"],
      ["services"],
      ["events"],
      ["query", "host"],
      ["tool", "list"],
      ["query", "sql", "SELECT 1 AS x"],
      ["version"],
    ]) {
      const [json, short, yaml, csv] = await Promise.all(
        [["-o", "json"], ["--json"], ["-o", "yaml"], ["-o", "csv"]].map((form) => coral(...command, ...form)),
      );
      const what = command.join(" ");
      expect(Object.keys(JSON.parse(json?.stdout ?? "") as object).length, what).toBeGreaterThan(0);
      expect(Object.keys(JSON.parse(short?.stdout ?? "") as object)).toEqual(Object.keys(JSON.parse(json?.stdout ?? "") as object));
      expect(yaml?.stdout, what).toMatch(/^\w+:/);
      expect(csv?.stdout, what).toMatch(/^\w+(,\w+)*\n/);
      for (const run of [json, yaml]) expect(run).toMatchObject({ code: 0, stderr: "" });
    }
  });

  it("ends silently when the reader closes the pipe early", async () => {
    const { code, stdout, stderr } = await shell("coral query sql 'SELECT * FROM range(9000)' --max-rows 9000 -q | head -n 2");
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "range\n    0\n", stderr: "" });
    const watched = await shell("coral status --json --watch 200ms | head -n 2 | wc -l");
    expect(watched.stdout.trim()).toBe("2");
    expect(watched.stderr).toBe("");
  });

  it("--watch prints one document per line until Ctrl-C, which exits with 0", async () => {
    const child = spawn(process.execPath, [coralFile, "agent", "status", "--json", "--watch", "200ms"], {
      env: cleanEnvironment(home.path),
      stdio: ["ignore", "pipe", "pipe"],
    });
    await using watching = new DaemonProcess("coral agent status --watch", child);
    await watching.waitForOutput(/(?:^\{.*\}\n){3}/m);
    expect(await watching.kill("SIGINT")).toEqual({ code: 0, signal: null });
  });

  it("is coloured on a terminal or when forced, never with NO_COLOR", async () => {
    const colour = async (env: Record<string, string>): Promise<boolean> => {
      const { NO_COLOR: _, ...clean } = cleanEnvironment(home.path);
      return (await runProgram(process.execPath, [coralFile, "status"], { env: { ...clean, ...env } })).stdout.includes("\u001b[");
    };
    expect(await colour({})).toBe(false);
    expect(await colour({ CLICOLOR_FORCE: "1" })).toBe(true);
    expect(await colour({ CLICOLOR_FORCE: "1", NO_COLOR: "1" })).toBe(false);
  });

  it("has the documented exit codes", async () => {
    for (const [args, code] of [
      [["status"], 0],
      [["status", "--nope"], 64],
      [["no-such-command"], 64],
      [["query", "host", "--since", "yesterday"], 64],
      [["query", "host", "no-such-host"], 4],
      [["query", "sql", "DROP VIEW host"], 3],
      [["tool", "call", "coral_nope"], 4],
      [["tool", "call", "coral_query_host", '{"snce":"1h"}'], 64],
      [["tool", "call", "coral_query_host", "{"], 64],
      [["status", "--colony", "no-such-colony"], 4],
      [["--help"], 0],
      [["colony"], 64],
    ] as const) {
      const run = await coral(...args);
      expect(run.code, `${args.join(" ")}: ${run.stderr}`).toBe(code);
      if (code !== 0) expect(run.stderr.length).toBeGreaterThan(10);
    }
  });
});

describe("completion", () => {
  it("in a real bash offers commands, contexts, agents and tools of the running colony", async () => {
    const complete = async (...words: string[]): Promise<string[]> => {
      const quoted = words.map((word) => `'${word}'`).join(" ");
      const { stdout, stderr } = await shell(
        `source <(coral completion bash) && COMP_WORDS=(${quoted}) COMP_CWORD=${words.length - 1} && _coral && printf '%s\\n' "\${COMPREPLY[@]}"`,
      );
      expect(stderr).toBe("");
      return stdout.split("\n").filter((word) => word !== "");
    };
    expect(await complete("coral", "qu")).toEqual(["query"]);
    expect(await complete("coral", "config", "use-context", "")).toEqual(["test-dev"]);
    expect(await complete("coral", "query", "host", "")).toContain(hostname());
    expect(await complete("coral", "tool", "call", "coral_query_t")).toEqual(["coral_query_top", "coral_query_traces"]);
    expect(await complete(coralFile, "agent", "st")).toEqual(["start", "status", "stop"]);
  });

  it.each(["bash", "zsh", "fish"])("for %s is printed without a colony", async (name) => {
    await using empty = makeTestHome();
    const { code, stdout, stderr } = await runCoral(["completion", name], { home: empty.path });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain("coral");
  });
});
