import { readFile, stat } from "node:fs/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { agentStatusAnswer, statusAnswer } from "../answers.fixture.ts";
import { World } from "../daemon.fixture.ts";
import type { RunOptions } from "../run/runtime.ts";

let world: World;
beforeEach(async () => {
  world = await World.create();
});
afterEach(() => world[Symbol.asyncDispose]());

describe("start and stop", () => {
  it("pass the flags to the runtime", async () => {
    await world.startColony();
    const runs: [string, RunOptions][] = [];
    const run = async (kind: string, options: RunOptions): Promise<void> => {
      runs.push([kind, options]);
      await Promise.resolve();
    };
    const env = { CORAL_JOIN_TOKEN: "coral_join_env" };
    expect((await world.coral("colony start --port 3001 --log-level debug --log-format json", { runtime: { run } })).code).toBe(0);
    expect((await world.coral("colony start --listen 0.0.0.0:9 --config x.yaml --colony shop-dev", { runtime: { run } })).code).toBe(0);
    expect((await world.coral("agent start --colony-id other-prod-000000", { runtime: { run }, env })).code).toBe(0);
    expect((await world.coral("agent start --colony shop-dev --token coral_join_flag", { runtime: { run }, env })).code).toBe(0);
    expect(runs).toEqual([
      ["colony", { colonyId: world.colonyId, listen: "3001", logLevel: "debug", logFormat: "json" }],
      ["colony", { colonyId: world.colonyId, listen: "0.0.0.0:9", config: "x.yaml" }],
      ["agent", { colonyId: "other-prod-000000", token: "coral_join_env" }],
      ["agent", { colonyId: world.colonyId, token: "coral_join_flag" }],
    ]);
  });

  it("--daemon prints pid, endpoints and log file", async () => {
    await world.startColony();
    const start = (kind: "colony" | "agent") =>
      Promise.resolve({ kind, pid: 7, logFile: "/l/x.log", endpoints: { colony: "https://127.0.0.1:9000" } });
    const ran = await world.coral("colony start --daemon", { runtime: { start } });
    expect(ran.stdout).toBe("colony started, pid 7\n");
    expect(ran.stderr).toContain("  colony   https://127.0.0.1:9000\n  log      /l/x.log\nnext: ");
    expect((await world.coral("agent start -d -q", { runtime: { start } })).stderr).toBe("");
  });

  it("stop prints the outcome, and succeeds when the daemon was not running", async () => {
    await world.startColony();
    const asked: unknown[] = [];
    const stop = (_kind: string, options: unknown) => {
      asked.push(options);
      return Promise.resolve({ kind: "stopped" as const, pid: 7, tookMs: 1_240 });
    };
    expect(await world.coral("colony stop --timeout 5s", { runtime: { stop } })).toMatchObject({
      code: 0,
      stdout: "colony stopped, pid 7 exited after 1s\n",
    });
    expect(asked).toEqual([{ colonyId: world.colonyId, timeoutMs: 5_000 }]);
    const idle = await world.coral("agent stop", { runtime: { stop: () => Promise.resolve({ kind: "not-running" }) } });
    expect(idle).toEqual({ code: 0, stdout: "", stderr: "agent was not running\n" });
  });

  it("colony start refuses a colony on another machine", async () => {
    const { saveContext } = await import("../../config/index.ts");
    await saveContext(world.home, { name: "far", colonyId: "far-prod-123456", endpoint: "far.example.com:9000" });
    const ran = await world.coral("colony start");
    expect(ran.code).toBe(64);
    expect(ran.stderr).toContain('colony "far" runs on another machine, at far.example.com:9000');
  });
});

describe("coral up", () => {
  it("prints the endpoints, the gaps and an overview of the machine", async () => {
    const agent = await world.startAgent();
    const colony = await world.startColony();
    agent.replies.set("GET /v1/status", () => agentStatusAnswer());
    const seen: string[] = [];
    let calls = 0;
    colony.replies.set("POST /v1/tools/coral_get_status", () => {
      calls++;
      return calls === 1 ? statusAnswer({ hosts: [] }) : statusAnswer();
    });
    let end: () => void = () => undefined;
    const ran = await world.coral("up --port 0", {
      onOutput: (text) => {
        seen.push(text);
        if (text.includes("Try in another terminal")) end();
      },
      runtime: {
        run: async (kind, options, onReady) => {
          expect([kind, options]).toEqual(["up", { listen: "0" }]);
          await onReady?.({
            endpoints: { colony: "https://127.0.0.1:9000" },
            degraded: [{ name: "ebpf", reason: "needs CAP_BPF; run with sudo" }],
          });
          await new Promise<void>((resolve) => {
            end = resolve;
          });
        },
      },
    });
    expect(ran.code).toBe(0);
    expect(seen[0]).toContain("  colony    https://127.0.0.1:9000\n\nNot available here:\n  ! ebpf: needs CAP_BPF; run with sudo\n");
    expect(ran.stdout).toContain("  web-1  healthy");
    expect(ran.stdout).toMatch(/CORAL_HOME=\S+ coral query summary +service health.*\n.* coral top .*\n.* coral query host web-2 /);
  });

  it("exits cleanly when stopped before the first sample", async () => {
    const ran = await world.coral("up", {
      runtime: { run: (_kind, _options, onReady) => onReady?.({ endpoints: {}, degraded: [] }) ?? Promise.resolve() },
    });
    expect(ran.code).toBe(0);
    expect(ran.stderr).toBe("coral stopped; stored data is kept\n");
  });
});

describe("coral init and doctor", () => {
  it("init prints the id alone on stdout", async () => {
    const init = ({ app, environment }: { app: string; environment: string }) =>
      Promise.resolve({
        colonyId: `${app}-${environment}-abcdef`,
        directory: "/d",
        caFingerprint: "ff",
        contextName: `${app}-${environment}`,
      });
    const ran = await world.coral("init shop --env prod", { runtime: { init } });
    expect(ran.stdout).toBe("shop-prod-abcdef\n");
    expect(ran.stderr).toContain("context      shop-prod\nnext: coral colony start --daemon");
  });

  it("doctor groups by area and gives the fix", async () => {
    const doctor = () =>
      Promise.resolve([
        { area: "runtime" as const, name: "node", state: "ok" as const, detail: "20.19" },
        { area: "ebpf" as const, name: "btf", state: "unavailable" as const, detail: "no /sys/kernel/btf", fix: "use a kernel with BTF" },
      ]);
    expect((await world.coral("doctor", { runtime: { doctor } })).stdout).toBe(
      `runtime
  ✓ node  20.19
ebpf
  ✗ btf   no /sys/kernel/btf
          fix: use a kernel with BTF

1 ok, 0 degraded, 1 unavailable
`,
    );
    expect(JSON.parse((await world.coral("doctor -o json", { runtime: { doctor } })).stdout)).toMatchObject({
      checks: [{ name: "node" }, { name: "btf" }],
    });
  });
});

describe("coral version", () => {
  it("prints the version in every form", async () => {
    expect((await world.coral("version")).stdout).toMatch(/^coral \d+\.\d+\.\d+\n$/);
    expect(JSON.parse((await world.coral("version --json")).stdout)).toMatchObject({ node: process.versions.node });
    expect((await world.coral("version -o csv")).stdout).toMatch(/^version,node,platform,arch\n/);
  });
});

describe("coral mcp config", () => {
  it.each(["claude-desktop", "cursor", "vscode", "codex", "claude-code"])(
    "prints a %s block that starts this program with this home and colony",
    async (client) => {
      await world.startColony();
      const ran = await world.coral(`mcp config ${client}`);
      expect(ran.code).toBe(0);
      expect(ran.stdout).toContain("node");
      expect(ran.stdout).toContain(world.home);
      expect(ran.stdout.replaceAll('"', "").replaceAll(/[,\s]+/g, " ")).toContain("mcp proxy --colony shop-dev");
      expect(ran.stderr).not.toBe("");
      if (["claude-desktop", "cursor", "vscode"].includes(client)) expect(() => JSON.parse(ran.stdout) as unknown).not.toThrow();
    },
  );
});

describe("coral config", () => {
  it("adds, lists, uses and deletes contexts; the token file is private and is deleted with the context", async () => {
    const { formatToken } = await import("../../transport/index.ts");
    const token = formatToken({
      kind: "user",
      endpoints: ["far.example.com:9000"],
      colonyId: "far-prod-123456",
      caFingerprint: "ab".repeat(32),
      tokenId: "t1",
      secret: "s".repeat(43),
    });
    await world.startColony();
    const added = await world.coral("config add-context far --token -", { stdin: `${token}\n` });
    expect(added).toMatchObject({ code: 0, stdout: "context far added (colony far-prod-123456 at far.example.com:9000)\n" });
    const tokenFile = `${world.home}/tokens/far.token`;
    expect((await stat(tokenFile)).mode & 0o777).toBe(0o600);
    expect(await readFile(`${world.home}/config.yaml`, "utf8")).not.toContain("coral_user_");
    expect((await world.coral("config add-context far --token x")).stderr).toContain("it exists; delete it first");
    expect((await world.coral("config use-context fra")).stderr).toBe('error: Cannot find context "fra": did you mean "far"?\n');
    expect((await world.coral("config use-context far")).stdout).toBe("current context is far (colony far-prod-123456)\n");
    const listed = await world.coral("config get-contexts");
    expect(listed.stdout).toMatch(
      /\n {9}shop-dev {2}shop-dev-1a2b3c {2}unix:.*\n\* {8}far {7}far-prod-123456 {2}https:\/\/far\.example\.com:9000\n$/,
    );
    expect((await world.coral("config delete-context far")).stderr).toContain("no current context");
    await expect(stat(tokenFile)).rejects.toThrow("ENOENT");
    expect((await world.coral("status")).stderr).toContain("Cannot serve POST /v1/tools/coral_get_status");
  });

  it("refuses an invalid token without printing it", async () => {
    const ran = await world.coral("config add-context far --token coral_user_rubbish");
    expect(ran.code).not.toBe(0);
    expect(ran.stderr).not.toContain("rubbish");
  });

  it("validate prints every problem as file:line, for editors", async () => {
    const { writePrivateFile } = await import("../../config/index.ts");
    const file = `${world.home}/agent/agent.yaml`;
    await writePrivateFile(file, "log:\n  level: loud\nfoo: 1\n");
    const bad = await world.coral("config validate");
    expect(bad.code).toBe(64);
    expect(bad.stdout).toEqual(
      expect.stringMatching(
        /^(\S+):2:10: log\.level is "loud"; allowed values: debug, info, warn, error\n\1:3:1: unknown key "foo"; allowed keys: colony, listen, [\w, ]+\n$/,
      ),
    );
    expect(bad.stderr).toBe("error: Found 2 problems; docs/config.md lists every key\n");
    await writePrivateFile(file, "log: { level: debug }\n");
    expect((await world.coral(["config", "validate", file])).stdout).toBe(`${file}: valid (agent)\n`);
    expect((await world.coral("config validate")).stdout).toBe(`${file}: valid (agent)\n`);
    await writePrivateFile(`${world.home}/odd.yaml`, "id: a\n");
    expect((await world.coral(`config validate ${world.home}/odd.yaml`)).stderr).toContain("set --kind agent");
    expect((await world.coral(`config validate ${world.home}/odd.yaml --kind colony`)).code).toBe(0);
    await writePrivateFile(`${world.home}/odd.yaml`, "id: a\nretention: { host_cpuu: 1h }\n");
    expect((await world.coral(`config validate ${world.home}/odd.yaml --kind colony`)).stdout).toContain(
      'did you mean "retention.host_cpu"?',
    );
    expect((await world.coral("config validate /nowhere.yaml")).code).toBe(4);
  });

  it("view shows the effective values, including the environment", async () => {
    const { stdout } = await world.coral("config view agent -o json", { env: { CORAL_LOG_LEVEL: "warn" } });
    expect(JSON.parse(stdout)).toMatchObject({
      home: world.home,
      agent: { log: { level: "warn" }, host: { interval: "15s", top_processes: 10 }, labels: {} },
    });
    expect((await world.coral("config view")).stdout).toContain(`home: ${world.home}\n`);
  });
});
