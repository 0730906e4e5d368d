/** `coral exec` and `coral run` as users run them, with real daemons and real processes. */

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ResourceStack } from "../../src/base/resource-stack.ts";
import type { ServiceList } from "../../src/tools/index.ts";
import { isRoot } from "../support/as-user.ts";
import { type AgentDaemon, type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
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

const coral = (...args: string[]) => runCoral(args, { home });

/** Pids of processes whose command line holds this text. */
function processesWith(text: string): number[] {
  return readProc().filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "latin1").includes(text);
    } catch {
      // Gone meanwhile.
      return false;
    }
  });
}

function readProc(): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid > 0 && pid !== process.pid);
}

/** A `coral …` that goes on, with the ways to end it. */
function startCoral(args: readonly string[]) {
  const child = spawn(process.execPath, [coralFile, ...args], { env: cleanEnvironment(home), stdio: ["ignore", "pipe", "pipe"] });
  const said = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (said.stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (said.stderr += text));
  const ended = once(child, "close").then(([code]) => code as number | null);
  return { child, said, ended };
}

describe("coral exec", () => {
  it("gives output, errors and exit codes of the command, through the colony and at this machine's agent", async () => {
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
    expect(late).toMatchObject({ code: 124, stderr: expect.stringContaining("its time was over") });
    const much = await coral("exec", "--all", "--max-output", "1KiB", "--", "yes");
    expect(much).toMatchObject({ code: 125, stderr: expect.stringContaining("it wrote more than is allowed") });
    expect((await coral("exec", "--all", "--", "/no/such/program")).code).toBe(4);
  });

  it("is bound by rules of the environment, which the agent knows from its colony", async () => {
    for (const target of [["--all"], []]) {
      const denied = await coral("exec", ...target, "nproc");
      expect(denied).toMatchObject({ code: 3, stderr: expect.stringContaining('the rule "not in dev" denies nproc') });
    }
  });

  it("runs beside a process that was named by its number", async () => {
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

  it("passes bytes on as they are", async () => {
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

  it("streams a gigabyte through the colony without keeping it", { timeout: 300_000 }, async () => {
    const sizeBytes = 1024 ** 3;
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

  it("refuses what the policy does not allow, exit 3, and says what an agent cannot do, exit 2", { timeout: 180_000 }, async () => {
    await using other = makeTestHome();
    const token = await colony.createJoinToken();
    {
      await using strict = await startAgent({ home: other.path, token, config: "labels:\n  kind: strict\notlp:\n  enabled: false\n" });
      await strict.waitUntilConnected();
      expect((await coral("exec", "--label", "kind=strict", "df -h")).code).toBe(0);
      const denied = await coral("exec", "--label", "kind=strict", "--", "sh", "-c", "id");
      expect(denied).toMatchObject({ code: 3, stdout: "" });
      const smuggled = await coral("exec", "--label", "kind=strict", "df -h; rm -rf /tmp/x");
      expect(smuggled.code).not.toBe(0);
      const both = await coral("exec", "--all", "--", "sh", "-c", "echo done");
      expect(both).toMatchObject({ code: 1, stdout: expect.stringContaining("| done"), stderr: expect.stringContaining("denied") });
    }
    await using off = await startAgent({
      home: other.path,
      config: "exec:\n  profile: off\nlabels:\n  kind: strict\notlp:\n  enabled: false\n",
    });
    await off.waitUntilConnected();
    const unable = await coral("exec", "--label", "kind=strict", "df");
    expect(unable).toMatchObject({ code: 2, stdout: "" });
    expect(unable.stderr).toContain("Error: Command 'exec' not supported by any target agents");
    expect(unable.stderr).toContain("Target: label=kind=strict (1 agent resolved)");
    const partial = await coral("exec", "--all", "echo hi");
    expect(partial).toMatchObject({ code: 0, stdout: "hi\n", stderr: expect.stringContaining("is left out: ") });
    expect((await runCoral(["exec", "df"], { home: other.path })).code).toBe(3);
  });
});

describe("kill -9 in the middle of a command", () => {
  /** A process tree that does not want to end: a shell that ignores signals, with a child in a session of its own. */
  const stubborn = (mark: string): string[] => ["sh", "-c", `trap '' HUP INT TERM; setsid sleep 98${mark} & sleep 97${mark}; wait`];

  const isRunning = (mark: string): boolean => ["97", "98"].every((part) => processesWith(`sleep\0${part}${mark}\0`).length > 0);

  async function begin(mark: string) {
    const running = startCoral(["exec", "--all", "--", ...stubborn(mark)]);
    await waitFor("the processes", () => isRunning(mark), { details: () => running.said.stderr });
    return running;
  }

  const nothingLeft = (mark: string): Promise<unknown> =>
    waitFor("no process to be left", () => processesWith(`98${mark}`).length + processesWith(`97${mark}`).length === 0);

  it("of the CLI ends the command", async () => {
    const { child, ended } = await begin("11");
    child.kill("SIGKILL");
    await ended;
    await nothingLeft("11");
  });

  it("of the agent leaves no process, and the CLI ends with 255", { timeout: 180_000 }, async () => {
    const { ended, said } = await begin("12");
    await agent.kill("SIGKILL");
    expect(await ended).toBe(255);
    expect(said.stderr).toContain("the connection to the agent was lost");
    await nothingLeft("12");
    agent = await startAgent({ home });
    await agent.waitUntilConnected();
    const audit = await coral("audit", "list", "--since", "10m", "-o", "json");
    expect(audit.code).toBe(0);
    const { code } = await coral("audit", "verify");
    expect(code).toBe(0);
  });

  it("of the colony ends the command, and the CLI ends with 255", { timeout: 180_000 }, async () => {
    const { ended, said } = await begin("13");
    await colony.kill("SIGKILL");
    expect(await ended).toBe(255);
    expect(said.stderr).toContain("the connection was lost");
    await nothingLeft("13");
    colony = await startColony({ home, port });
    await agent.waitUntilConnected();
    await waitFor("commands to work again", async () => (await coral("exec", "--all", "true")).code === 0, { timeoutMs: 60_000 });
  });
});

describe("coral run", () => {
  it("starts a program that is observed as a service, and ends it with the command", { timeout: 180_000 }, async () => {
    const script = join(home, "server.mjs");
    writeFileSync(
      script,
      `import { createServer } from "node:http";\nconst s = createServer((q, r) => r.end("ok")).listen(0, "127.0.0.1", () => console.log("port", s.address().port));\n`,
      { mode: 0o644 },
    );
    const running = startCoral(["run", "--name", "bakery", "--", process.execPath, script]);
    await waitFor("its output", () => /port \d+/.test(running.said.stdout), { details: () => running.said.stderr });
    await waitFor(
      "the service",
      async () => (await coralJson<ServiceList>(["services"], { home })).services.some(({ service }) => service === "bakery"),
      { timeoutMs: 90_000 },
    );
    expect(processesWith(script).length).toBeGreaterThan(0);
    running.child.kill("SIGINT");
    expect(await running.ended).toBe(130);
    await waitFor("its end", () => processesWith(script).length === 0);
  });

  it("lets a detached program run on", async () => {
    const marker = join(home, "marker");
    const { code, stderr } = await coral("run", "--detach", "--name", "later", "--", "sh", "-c", `sleep 2; echo x > ${marker}; sleep 9614`);
    expect(code).toBe(0);
    expect(stderr).toContain("later runs as pid");
    await waitFor("its deed", () => existsSync(marker));
    for (const pid of processesWith("9614")) process.kill(pid, "SIGKILL");
  });
});
