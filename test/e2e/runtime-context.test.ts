/** The runtime context of an agent as the colony and the CLI show it, and its change while a command runs. */

import { chmodSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { agentPaths } from "../../src/config/index.ts";
import type { AgentList, AgentStatus, RuntimeContextList, RuntimeRefreshed } from "../../src/tools/index.ts";
import { startAgent, startColony } from "../support/daemon.ts";
import { runCoral } from "../support/run-coral.ts";
import type { ProgramRun } from "../support/run-program.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

const config = (override: string): string => `exec:\n  profile: full\nruntime:\n  refresh_interval: 1h\n${override}`;
const passive = "  override:\n    runtime_type: k8s-sidecar\n    sidecar_mode: passive\n";
const shared = passive.replace("passive", "shared-ns");

it("a changed runtime context reaches the colony at once and does not end running commands", async () => {
  await using home = makeTestHome();
  await using open = makeTestHome();
  // Commands run as user nobody.
  chmodSync(open.path, 0o777);
  await using colony = await startColony({ home: home.path });
  await using agent = await startAgent({ home: home.path, config: config(shared) });
  await agent.waitUntilConnected();
  const run = (args: string[]): Promise<ProgramRun> => runCoral(args, { home: home.path });
  const coral = async (args: string): Promise<string> => (await run(args.split(" "))).stdout;
  const list = async (args = ""): Promise<AgentList> => JSON.parse(await coral(`agent list${args} -o json`)) as AgentList;
  const [first] = (await list()).agents;
  expect(first).toMatchObject({ runtimeType: "k8s-sidecar", mode: "Shared NS", isLegacy: false });
  expect(await coral("agent status")).toContain("  Type:         Kubernetes Sidecar (by the agent's config)\n  Mode:         Shared NS");

  const since = async (): Promise<string> => (JSON.parse(await coral("agent status -o json")) as AgentStatus).colony.since;
  const before = await since();
  const mark = join(open.path, "begun");
  const running = run(["exec", "--agent", first?.agentId ?? "", "--", "sh", "-c", `: > ${mark}; sleep 4`]);
  await waitFor("the command to run", () => existsSync(mark));
  writeFileSync(agentPaths(home.path).configFile, config(passive));
  agent.signal("SIGHUP");
  await waitFor("the colony to know", async () => (await list(" --mode passive")).agents.length === 1);
  const colonyStatus = await coral("colony status");
  expect(colonyStatus).toContain("│ K8s Sidecar │ Passive │");
  expect(colonyStatus).toContain(
    "in passive mode (no exec/shell support)\n    Fix: Mount CRI socket or enable shareProcessNamespace\n    See: ",
  );
  expect((await running).code).toBe(0);
  expect(await since()).toBe(before);
  expect((await list(" --capability exec")).agents).toEqual([]);

  const refused = await run(["exec", "--agent", first?.agentId ?? "", "--", "true"]);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain("passive mode - no CRI socket, no shared namespace");

  const { changes } = JSON.parse(await coral("agent refresh-context -o json")) as RuntimeRefreshed;
  expect(changes).toEqual([]);
  const context = await colony.tool<RuntimeContextList>("coral_get_runtime_context", { refresh: true, history: 5 });
  expect(context.agents).toMatchObject([{ source: "agent", runtime: { sidecarMode: "passive", isOverridden: true } }]);
});
