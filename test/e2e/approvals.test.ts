/** Rules that require an approval, and recordings of terminal sessions, with real daemons. */

import { execFileSync, spawn } from "node:child_process";
import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { agentPaths } from "../../src/config/index.ts";
import type { ApprovalList, AuditEntries, AuditList } from "../../src/tools/index.ts";
import { type AgentDaemon, type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { coralFile, coralJson, runCoral } from "../support/run-coral.ts";
import { cleanEnvironment, makeTestHome, type TestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

const agentConfig = `
exec:
  approval_timeout: 5m
  rules:
    - { name: uptimes, action: require_approval, program: uptime }
    - { name: not ann, action: deny, program: nproc, user: "token:an*" }
`;

let home: TestHome;
let colony: ColonyDaemon;
let agent: AgentDaemon;
let execToken: string;

beforeAll(async () => {
  home = makeTestHome();
  colony = await startColony({ home: home.path, config: "pull:\n  interval: 500ms\n" });
  agent = await startAgent({ home: home.path, config: agentConfig });
  await agent.waitUntilConnected();
  const created = await coralJson<{ token: string }>(
    ["colony", "token", "create", "--kind", "user", "--permission", "exec", "--note", "ann"],
    {
      home: home.path,
    },
  );
  execToken = created.token;
});

afterAll(async () => {
  await agent.stop();
  await colony.stop();
  await home[Symbol.asyncDispose]();
});

// A failed test may leave a pending approval behind.
beforeEach(async () => {
  const { approvals } = await coralJson<ApprovalList>(["approval", "list"], asRoot());
  for (const { approvalId } of approvals) await runCoral(["approval", "deny", approvalId], asRoot());
  await noPendingApproval();
});

const asAnn = () => ({ home: home.path, env: { CORAL_TOKEN: execToken } });
const asRoot = () => ({ home: home.path });

const approvals = async () => (await colony.tool<ApprovalList>("coral_list_approvals")).approvals;

async function pendingApproval(): Promise<ApprovalList["approvals"][number]> {
  let found: ApprovalList["approvals"] = [];
  await waitFor("a pending approval", async () => {
    found = await approvals();
    return found.length > 0;
  });
  const [first] = found;
  if (!first) throw new Error("no pending approval");
  return first;
}

async function noPendingApproval(): Promise<void> {
  await waitFor("no pending approval", async () => (await approvals()).length === 0);
}

it("rules identify callers by the notes of their tokens", async () => {
  const denied = await runCoral(["exec", "--all", "nproc"], asAnn());
  expect(denied).toMatchObject({ code: 3, stderr: expect.stringContaining('the rule "not ann" denies nproc') });
  expect((await runCoral(["exec", "--all", "nproc"], asRoot())).code).toBe(0);
});

describe("approvals", () => {
  it("let a command run after another caller approves it, and appear in both audits", async () => {
    const running = runCoral(["exec", "--all", "uptime"], asAnn());
    const held = await pendingApproval();
    expect(held).toMatchObject({ command: "uptime", rule: "uptimes", caller: "token:ann" });
    const refused = await runCoral(["approval", "approve", held.approvalId], asAnn());
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain("admin");
    const approved = await runCoral(["approval", "approve", held.approvalId.slice(0, 8), "--reason", "planned"], asRoot());
    expect(approved).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Approved /) });
    const { code, stdout } = await running;
    expect(code).toBe(0);
    expect(stdout).toContain("load average");
    await waitFor("the agent's entries", async () =>
      (await entriesOf(held.commandId)).some(([where, phase]) => where === "agent" && phase === "ended"),
    );
    expect(await entriesOf(held.commandId)).toEqual([
      ["colony", "asked", ""],
      ["colony", "decided", "approved"],
      ["colony", "ended", "exited"],
      ["agent", "held", "waits for an approval"],
      ["agent", "decided", expect.stringContaining("approved")],
      ["agent", "begun", ""],
      ["agent", "ended", "exited"],
    ]);
    await noPendingApproval();
  });

  it("end a denied command", async () => {
    const running = runCoral(["exec", "--all", "uptime"], asAnn());
    const held = await pendingApproval();
    expect((await runCoral(["approval", "deny", held.approvalId, "--reason", "not now"], asRoot())).code).toBe(0);
    const { code, stderr } = await running;
    expect(code).toBe(3);
    expect(stderr).toContain("not now");
    await noPendingApproval();
  });

  it("cannot be given by the caller, and end when the caller disconnects", async () => {
    const running = spawn(process.execPath, [coralFile, "exec", "--all", "uptime"], { env: cleanEnvironment(home.path), stdio: "ignore" });
    const held = await pendingApproval();
    const own = await runCoral(["approval", "approve", held.approvalId], asRoot());
    expect(own.code).not.toBe(0);
    expect(own.stderr).toContain("someone else must approve");
    running.kill("SIGKILL");
    await noPendingApproval();
    await waitFor("its end in the audit", async () =>
      (await entriesOf(held.commandId)).some(([where, phase]) => where === "agent" && (phase === "ended" || phase === "denied")),
    );
  });

  it("are decided at the colony even for commands on the agent's own socket", async () => {
    const running = runCoral(["exec", "uptime"], asRoot());
    const held = await pendingApproval();
    expect(held.caller).toMatch(/^local:uid=/);
    const admin = await coralJson<{ token: string }>(["colony", "token", "create", "--kind", "user", "--permission", "admin"], asRoot());
    const other = { home: home.path, env: { CORAL_TOKEN: admin.token } };
    expect(await runCoral(["approval", "approve", held.approvalId], other)).toMatchObject({ code: 0 });
    expect((await running).code).toBe(0);
  });
});

describe("recordings", () => {
  const hasScript = (): boolean => {
    try {
      execFileSync("script", ["--version"], { stdio: "ignore" });
      return true;
    } catch {
      return false;
    }
  };

  it.skipIf(!hasScript())("of a terminal replay unchanged, and tampering is reported", async () => {
    const known = new Set((await coralJson<AuditList>(["audit", "list", "--command", "free"], asRoot())).records.map(({ id }) => id));
    const command = `${process.execPath} ${coralFile} exec --all -t -- free -m`;
    execFileSync("script", ["-qec", command, "/dev/null"], {
      env: { ...cleanEnvironment(home.path), TERM: "xterm" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let record: AuditList["records"][number] | undefined;
    await waitFor("the recording in the audit", async () => {
      const { records } = await coralJson<AuditList>(["audit", "list", "--command", "free"], asRoot());
      record = records.find(({ id, recording, phase }) => !known.has(id) && recording !== "" && phase === "ended");
      return record !== undefined;
    });
    const replayed = await runCoral(["audit", "replay", record?.id.slice(0, 8) ?? ""], asRoot());
    expect(replayed).toMatchObject({ code: 0, stdout: expect.stringContaining("Mem:") });
    const directory = join(agentPaths(home.path).directory, "recordings");
    const [file = ""] = readdirSync(directory).filter((name) => name === record?.recording);
    expect(readFileSync(join(directory, file), "utf8")).toContain('"version":2');
    appendFileSync(join(directory, file), '[9.5,"o","nothing happened"]\n');
    const changed = await runCoral(["audit", "replay", record?.id ?? ""], asRoot());
    expect(changed.code).toBe(1);
    expect(changed.stderr).toContain("the recording was changed");
    const { records } = await coralJson<AuditList>(["audit", "list", "--kind", "replay"], asRoot());
    expect(records.filter(({ command }) => command.includes(file))).toHaveLength(2);
  });
});

async function entriesOf(id: string): Promise<[string, string, string][]> {
  const { code, stdout } = await runCoral(["audit", "show", id, "--json"], asRoot());
  if (code !== 0) return [];
  const { entries } = JSON.parse(stdout) as AuditEntries;
  return entries.map(({ agentId, phase, reason }) => [agentId === null ? "colony" : "agent", phase, reason]);
}
