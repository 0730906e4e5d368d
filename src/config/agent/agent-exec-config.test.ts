import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadAgentConfig } from "./agent-config.ts";
import type { AgentExecConfig } from "./agent-exec-config.ts";

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "coral-config-"));
});
afterEach(() => rm(home, { recursive: true }));

async function load(yaml: string): Promise<AgentExecConfig> {
  const file = join(home, "agent.yaml");
  await writeFile(file, yaml);
  return (await loadAgentConfig({ home, file, env: {} })).config.exec;
}

describe("agent config: exec", () => {
  it("defaults to the read-only profile with limits", async () => {
    expect(await load("labels: {}\n")).toEqual({
      profile: "diagnostics",
      rules: [],
      runAs: undefined,
      timeoutMs: 300_000,
      maxOutputBytes: 16 * 1024 ** 2,
      maxRunning: 16,
      limits: { memoryBytes: 512 * 1024 ** 2, cpus: 1, processes: 256 },
      recordings: { enabled: true, maxSizeBytes: 256 * 1024 ** 2, maxAgeMs: 30 * 86_400_000 },
      environmentAllow: ["*"],
      modelHosts: [],
      approvalTimeoutMs: 900_000,
    });
  });

  it("reads rules and turns a single pattern into a list", async () => {
    const yaml =
      'exec:\n  rules:\n    - { name: restart, action: require_approval, program: systemctl, args: [restart, "nginx*"], run_as: root }\n';
    expect((await load(yaml)).rules).toEqual([
      {
        name: "restart",
        action: "require_approval",
        program: ["systemctl"],
        args: ["restart", "nginx*"],
        user: [],
        target: [],
        environment: [],
        kind: [],
        runAs: "root",
      },
    ]);
  });

  it.each([
    ["an unknown profile", "exec:\n  profile: everything\n", "exec.profile"],
    ["a rule without an action", "exec:\n  rules:\n    - { name: x, program: ls }\n", "action"],
    ["an unknown key of a rule", "exec:\n  rules:\n    - { name: x, action: allow, progam: ls }\n", "progam"],
    ["an invalid user name", 'exec:\n  run_as: "root; id"\n', "exec.run_as"],
    ["zero cores", "exec:\n  limits: { cpus: 0 }\n", "exec.limits.cpus"],
  ])("rejects %s", async (_name, yaml, word) => {
    await expect(load(yaml)).rejects.toThrow(word);
  });
});
