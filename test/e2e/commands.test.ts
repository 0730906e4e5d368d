/** `coral exec` and `coral run` as users run them, with real daemons and real processes. */

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ResourceStack } from "../../src/base/resource-stack.ts";
import type { AuditList, ServiceList } from "../../src/tools/index.ts";
import { isRoot } from "../support/as-user.ts";
import { type AgentDaemon, type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { namedSleep, processesWith } from "../support/named-sleep.ts";
import { coralFile, coralJson, runCoral } from "../support/run-coral.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { cleanEnvironment, makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

const agentConfig = `exec:\n  profile: full\n  rules:\n    - { name: not in dev, action: deny, program: nproc, environment: dev }\n  max_output: 4GiB\n${isRoot ? "  run_as: root\n" : ""}labels:\n  zone: eu-1\notlp:\n  enabled: false\n`;

let stack: ResourceStack;
let colony: ColonyDaemon;
let agent: AgentDaemon;
let home: string;
let port: number;
let tries = 0;

beforeAll(async () => {
  stack = new ResourceStack();
  home = stack.use(makeTestHome()).path;
  colony = await startColony({ home, config: "pull:\n  interval: 1s\n" });
  ({ port } = colony);
  agent = await startAgent({ home, config: agentConfig });
  stack.defer(async () => void (await agent.stop()));
  stack.defer(async () => void (await colony.stop()));
  await agent.waitUntilConnected();
});

afterAll(async () => {
  await stack[Symbol.asyncDispose]();
});

// Some tests kill daemons; after a failed test, the next one needs new daemons.
beforeEach(async () => {
  if (colony.hasEnded) colony = await startColony({ home, port });
  if (agent.hasEnded) agent = await startAgent({ home });
  await agent.waitUntilConnected();
});

const coral = (...args: string[]) => runCoral(args, { home });

/** A running `coral …` command. */
function startCoral(args: readonly string[]) {
  const child = spawn(process.execPath, [coralFile, ...args], { env: cleanEnvironment(home), stdio: ["ignore", "pipe", "pipe"] });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output.stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output.stderr += text));
  const ended = once(child, "close").then(([code]) => code as number | null);
  return { child, output, ended };
}

describe("coral exec", () => {
  it("passes on stdout, stderr and exit code, through the colony and at this machine's agent", async () => {
    for (const target of [["--agent", agent.agentId], ["--label", "zone=eu-1"], ["--env", "dev"], ["--all"], []]) {
      expect(await coral("exec", ...target, "--", "sh", "-c", "echo out; echo err >&2; exit 7")).toEqual({
        code: 7,
        stdout: "out\n",
        stderr: "err\n",
      });
    }
    expect(await coral("exec", "--all", "printf 'b\\na\\n' | sort | tail -1")).toEqual({ code: 0, stdout: "b\n", stderr: "" });
    const killed = await coral("exec", "--all", "--", "sh", "-c", "kill -TERM $$");
    expect(killed.code).toBe(143);
    const late = await coral("exec", "--all", "--timeout", "1s", "--", "sleep", "60");
    expect(late).toMatchObject({ code: 124, stderr: expect.stringContaining("timed out") });
    const much = await coral("exec", "--all", "--max-output", "1KiB", "--", "yes");
    expect(much).toMatchObject({ code: 125, stderr: expect.stringContaining("wrote more output than allowed") });
    expect((await coral("exec", "--all", "--", "/no/such/program")).code).toBe(4);
  });

  it("applies the rules of the environment, which the agent learns from its colony", async () => {
    for (const target of [["--all"], []]) {
      const denied = await coral("exec", ...target, "nproc");
      expect(denied).toMatchObject({ code: 3, stderr: expect.stringContaining('the rule "not in dev" denies nproc') });
    }
  });

  it("runs in the context of the process given by pid", async () => {
    const where = async (pid: number) =>
      JSON.parse((await coral("exec", "--pid", String(pid), "--json", "true")).stdout.split("\n")[1] ?? "");
    expect(await where(process.pid)).toMatchObject({ kind: "started", where: `host (process, pid ${process.pid})` });
    expect(await coral("exec", "--pid", "2147483646", "true")).toMatchObject({ code: 4 });
  });

  it("takes input, a directory and an environment", async () => {
    const ran = await runCoral(["exec", "--all", "-i", "wc -c"], { home, input: "x".repeat(1_000_000) });
    expect(ran).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\s*1000000\s*$/) });
    expect((await coral("exec", "--all", "--cwd", "/usr", "pwd")).stdout).toBe("/usr\n");
    expect((await coral("exec", "--all", "-e", "LANG=C.UTF-8", "--", "sh", "-c", "echo $LANG")).stdout).toBe("C.UTF-8\n");
    expect((await coral("exec", "--all", "cat")).stdout).toBe("");
  });

  it("passes bytes unchanged", async () => {
    const random = seededRandom(6);
    const bytes = Buffer.from(Uint8Array.from({ length: 3_000_000 }, () => Math.floor(random() * 256)));
    const file = join(home, "bytes");
    writeFileSync(file, bytes, { mode: 0o644 });
    const child = spawn(process.execPath, [coralFile, "exec", "--all", "--", "cat", file], {
      env: cleanEnvironment(home),
      stdio: ["ignore", "pipe", "inherit"],
    });
    const hash = createHash("sha256");
    let sizeBytes = 0;
    for await (const chunk of child.stdout) {
      hash.update(chunk as Buffer);
      sizeBytes += (chunk as Buffer).length;
    }
    expect(sizeBytes).toBe(bytes.length);
    expect(hash.digest("hex")).toBe(createHash("sha256").update(bytes).digest("hex"));
  });

  it("streams half a gigabyte through the colony without buffering it", async () => {
    const sizeBytes = 512 * 1024 ** 2;
    const before = { colony: colony.rssBytes(), agent: agent.rssBytes() };
    const args = ["exec", "--all", "--timeout", "10m", "--", "head", "-c", String(sizeBytes), "/dev/zero"];
    const child = spawn(process.execPath, [coralFile, ...args], { env: cleanEnvironment(home), stdio: ["ignore", "pipe", "inherit"] });
    let got = 0;
    let mostBytes = 0;
    const timer = setInterval(() => {
      mostBytes = Math.max(mostBytes, colony.rssBytes() - before.colony, agent.rssBytes() - before.agent);
    }, 200);
    for await (const chunk of child.stdout) got += (chunk as Buffer).length;
    clearInterval(timer);
    expect(got).toBe(sizeBytes);
    expect(mostBytes).toBeLessThan(256 * 1024 ** 2);
  });

  it("refuses what the policy denies with exit code 3, and unsupported requests with exit code 2", async () => {
    await using other = makeTestHome();
    const token = await colony.createJoinToken();
    // An earlier test may have left an agent that the colony still knows.
    const kind = `kind=strict-${process.pid}-${tries++}`;
    const labels = `labels:\n  ${kind.replace("=", ": ")}\n`;
    {
      await using strict = await startAgent({ home: other.path, token, config: `${labels}otlp:\n  enabled: false\n` });
      await strict.waitUntilConnected();
      expect((await coral("exec", "--label", kind, "df -h")).code).toBe(0);
      const denied = await coral("exec", "--label", kind, "--", "sh", "-c", "id");
      expect(denied).toMatchObject({ code: 3, stdout: "" });
      const smuggled = await coral("exec", "--label", kind, "df -h; rm -rf /tmp/x");
      expect(smuggled.code).not.toBe(0);
      const both = await coral("exec", "--all", "--", "sh", "-c", "echo done");
      expect(both).toMatchObject({ code: 1, stdout: expect.stringContaining("| done"), stderr: expect.stringContaining("denied") });
    }
    await using off = await startAgent({
      home: other.path,
      config: `exec:\n  profile: off\n${labels}otlp:\n  enabled: false\n`,
    });
    await off.waitUntilConnected();
    const unable = await coral("exec", "--label", kind, "df");
    expect(unable).toMatchObject({ code: 2, stdout: "" });
    expect(unable.stderr).toContain("Error: Command 'exec' not supported by any target agents");
    expect(unable.stderr).toContain(`Target: label=${kind} (1 agent resolved)`);
    const partial = await coral("exec", "--all", "echo hi");
    expect(partial).toMatchObject({ code: 0, stdout: "hi\n", stderr: expect.stringContaining("was skipped: ") });
    expect((await runCoral(["exec", "df"], { home: other.path })).code).toBe(3);
  });
});

describe("kill -9 in the middle of a command", () => {
  /** A process tree that ignores signals: a shell with a trap, and a child in its own session. */
  async function begin() {
    const sleeps = [namedSleep(), namedSleep()] as const;
    const script = `trap '' HUP INT TERM; setsid ${sleeps[0].command} & ${sleeps[1].command}; wait`;
    const running = startCoral(["exec", "--all", "--json", "--", "sh", "-c", script]);
    const details = (): string => running.output.stderr;
    await waitFor("the processes", () => sleeps.every((sleep) => sleep.pids().length > 0), { details });
    const commandId = await waitFor("its id", () => /"commandId":"([0-9a-f-]{36})"/.exec(running.output.stdout)?.[1], { details });
    return {
      ...running,
      nothingLeft: () =>
        waitFor("no process to be left", () => processesWith(script).length === 0 && sleeps.every((sleep) => sleep.pids().length === 0)),
      /** In the audit, which stays whole. */
      endedAs: async (reason: string): Promise<void> => {
        let seen: AuditList["records"] = [];
        await waitFor(
          "its end in the audit",
          async () => {
            seen = (await coralJson<AuditList>(["audit", "list"], { home })).records.filter(({ id }) => id === commandId);
            return seen.some((record) => record.phase === "ended" && record.reason === reason);
          },
          { details: () => JSON.stringify(seen, undefined, 1) },
        );
        expect((await coral("audit", "verify")).code).toBe(0);
      },
    };
  }

  it("of the CLI ends the command", async () => {
    const { child, ended, nothingLeft, endedAs } = await begin();
    child.kill("SIGKILL");
    await ended;
    await nothingLeft();
    await endedAs("cancelled");
  });

  it("of the agent leaves no process, and the CLI ends with 255", async () => {
    const { ended, output, nothingLeft, endedAs } = await begin();
    await agent.kill("SIGKILL");
    expect(await ended).toBe(255);
    expect(output.stdout + output.stderr).toContain("the connection to the agent was lost");
    await nothingLeft();
    agent = await startAgent({ home });
    await agent.waitUntilConnected();
    await endedAs("lost");
  });

  it("of the colony ends the command, and the CLI ends with 255", async () => {
    const { ended, output, nothingLeft, endedAs } = await begin();
    await colony.kill("SIGKILL");
    expect(await ended).toBe(255);
    expect(output.stderr).toContain("the connection was lost");
    await nothingLeft();
    colony = await startColony({ home, port });
    await agent.waitUntilConnected();
    await waitFor("commands to work again", async () => (await coral("exec", "--all", "true")).code === 0);
    await endedAs("cancelled");
  });
});

describe("coral run", () => {
  it("starts a program that is observed as a service, and ends it with the command", async () => {
    const script = join(mkdtempSync(join(home, "run-")), "server.mjs");
    writeFileSync(
      script,
      `import { createServer } from "node:http";\nconst s = createServer((q, r) => r.end("ok")).listen(0, "127.0.0.1", () => console.log("port", s.address().port));\n`,
      { mode: 0o644 },
    );
    const running = startCoral(["run", "--name", "bakery", "--", process.execPath, script]);
    await waitFor("its output", () => /port \d+/.test(running.output.stdout), { details: () => running.output.stderr });
    await waitFor("the service", async () =>
      (await coralJson<ServiceList>(["services"], { home })).services.some(({ service }) => service === "bakery"),
    );
    expect(processesWith(script).length).toBeGreaterThan(0);
    running.child.kill("SIGINT");
    expect(await running.ended).toBe(130);
    await waitFor("its end", () => processesWith(script).length === 0);
  });

  it("keeps a detached program running", async () => {
    const sleep = namedSleep();
    const { code, stderr } = await coral("run", "--detach", "--name", "later", "--", "sh", "-c", `sleep 2; ${sleep.command}`);
    expect(code).toBe(0);
    expect(stderr).toContain("later keeps running as pid");
    const [pid] = await waitFor("its second part", () => sleep.pids().length > 0 && sleep.pids());
    process.kill(pid ?? 0, "SIGKILL");
  });
});
