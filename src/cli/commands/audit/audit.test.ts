import { createHash } from "node:crypto";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CoralError } from "../../../base/errors.ts";
import type { ApprovalInfo, AuditEntryFact, AuditRecordFact, AuditVerification } from "../../../tools/index.ts";
import { useColony } from "../../daemon.fixture.ts";

const here = useColony();

const id = "3f2a9c1e-0000-4000-8000-000000000001";

function record(more: Partial<AuditRecordFact> = {}): AuditRecordFact {
  return {
    id,
    at: "2026-01-01T10:00:00.000Z",
    agentId: "agent-a",
    hostname: "web-1",
    kind: "exec",
    phase: "ended",
    caller: "token:ann",
    callerFrom: "10.0.0.7:5",
    through: "cli",
    questionId: "",
    target: "service api",
    place: "host",
    command: "ps aux",
    rule: "diagnostics",
    runAs: "nobody",
    reason: "exited",
    exitCode: 0,
    stdoutBytes: 100,
    stderrBytes: 0,
    durationMs: 12,
    recording: "",
    ...more,
  };
}

function entry(more: Partial<AuditEntryFact> = {}): AuditEntryFact {
  return { ...record(), entry: 7, hash: "a".repeat(64), previousHash: "b".repeat(64), details: "{}", ...more };
}

describe("coral audit list", () => {
  it("prints a line per record, and passes the filters on", async () => {
    const records = [
      record(),
      record({ phase: "denied", reason: "no rule allows rm", exitCode: null, command: "rm -rf /", rule: "" }),
      record({ agentId: null, hostname: null, kind: "sql", command: "select 1", reason: "answered", through: "mcp", rule: "" }),
      record({ phase: "ended", reason: "lost", exitCode: null, kind: "shell", command: "\u001b[31m" }),
    ];
    here.colony.tool("coral_list_audit", { records });
    const { stdout, code } = await here.world.coral(
      "audit list --user ann --command ps --target web --since 7d --outcome failed --limit 9",
    );
    expect(here.colony.calls[0]?.body).toEqual({ since: "7d", user: "ann", command: "ps", target: "web", outcome: "failed", limit: 9 });
    expect(code).toBe(0);
    const lines = stdout.split("\n");
    expect(lines[0]).toMatch(/^TIME +ID +WHO +BY +AT +TARGET +WHAT +RULE +OUTCOME +TOOK$/);
    expect(lines[1]).toMatch(/3f2a9c1e +token:ann +cli +web-1 +service api +ps aux +diagnostics +exit 0 +12ms/);
    expect(lines[2]).toContain("denied: no rule allows rm");
    expect(lines[3]).toMatch(/mcp +colony .*sql: select 1 .*answered/);
    expect(lines[4]).toMatch(/shell: \\x1b\[31m .*lost/);
    expect((await here.world.coral("audit list -o csv")).stdout.split("\n")[1]).toContain(id);
  });

  it("reads from this machine's agent with --local", async () => {
    const agent = await here.world.startAgent();
    agent.replies.set("GET /v1/audit?sinceMs=3600000&user=ann", () => ({ records: [record()] }));
    const { stdout } = await here.world.coral("audit list --local --since 1h --user ann");
    expect(stdout).toContain("3f2a9c1e");
    expect(here.colony.calls).toEqual([]);
    expect(await here.world.coral("audit list --local --agent web-1")).toMatchObject({ code: 64 });
  });

  it("prints a note when nothing matches", async () => {
    here.colony.tool("coral_list_audit", { records: [] });
    expect((await here.world.coral("audit list")).stderr).toContain("in the last 24h");
  });
});

describe("coral audit show", () => {
  it("shows the entries of each chain", async () => {
    const entries = [
      entry({ agentId: null, hostname: null, phase: "asked", reason: "", exitCode: null, rule: "", runAs: "", place: "" }),
      entry({ phase: "begun", reason: "", exitCode: null, stdoutBytes: 0 }),
      entry({ entry: 8, recording: "r1" }),
    ];
    here.colony.tool("coral_get_audit", { id, entries });
    const { stdout } = await here.world.coral("audit show 3f2a9c1e");
    expect(here.colony.calls[0]?.body).toEqual({ id: "3f2a9c1e" });
    expect(stdout).toContain(`exec ${id}`);
    expect(stdout).toContain("who      token:ann, by cli, from 10.0.0.7:5");
    expect(stdout).toMatch(/colony\n.*asked/);
    expect(stdout).toMatch(
      /web-1\n.*begun +rule diagnostics, as nobody, in host +entry 7 +aaaaaaaaaaaa\n.*ended +exit 0, 12ms, 100 B out, 0 B err, recording r1/,
    );
  });
});

describe("coral audit verify", () => {
  const whole: AuditVerification = {
    isWhole: true,
    notes: [],
    chains: [
      {
        agentId: null,
        hostname: null,
        chainId: "c",
        where: "colony",
        entries: 5,
        firstEntry: 1,
        lastEntry: 5,
        head: "d".repeat(64),
        problems: [],
        moreProblems: 0,
      },
    ],
  };

  it("exits with 0 when every chain is intact", async () => {
    here.colony.tool("coral_verify_audit", whole);
    const { stdout, code } = await here.world.coral("audit verify");
    expect(code).toBe(0);
    expect(stdout).toBe(
      `✓ colony  entries 1 to 5  dddddddddddddddd\n\nAudit intact: 1 chain verified\nKeep this elsewhere, for --expect: c:5:${"d".repeat(64)}\n`,
    );
  });

  it("verifies this machine's agent with --local, and notes what that cannot detect", async () => {
    const agent = await here.world.startAgent();
    agent.replies.set("POST /v1/audit/verify", () => ({ ...whole, isWhole: false, notes: ["only this host's own file was checked"] }));
    const { stderr, code } = await here.world.coral("audit verify --local");
    expect(stderr).toContain("only this host's own file was checked");
    expect(code).toBe(1);
  });

  it("exits with 1 and names the problems", async () => {
    const [chain] = whole.chains;
    const problems = [{ kind: "changed", entry: 3, message: "entry 3 was changed" }];
    const broken = { ...chain, agentId: "agent-a", hostname: "web-1", where: "agent", problems, moreProblems: 2 };
    here.colony.tool("coral_verify_audit", { ...whole, isWhole: false, chains: [chain, broken] });
    const kept = `c:5:${"d".repeat(64)}`;
    const { stdout, code } = await here.world.coral(["audit", "verify", "--agent", "web-1", "--expect", kept]);
    expect(here.colony.calls[0]?.body).toEqual({ agent: "web-1", expect: [kept] });
    expect(code).toBe(1);
    expect(stdout).toContain("✗ web-1, at the agent");
    expect(stdout).toContain("    entry 3 was changed\n    and 2 more\n");
    expect(stdout).toContain("Audit broken: problems in 1 of 2 chains");
    expect((await here.world.coral("audit verify -o json")).code).toBe(1);
  });
});

describe("coral audit replay", () => {
  const header = { version: 2, width: 80, height: 24 };
  const events = [
    [0.1, "o", "hello "],
    [3_600, "o", "world\u001b]52;c;AAAA\u0007"],
  ];
  const file = `${[header, ...events].map((line) => JSON.stringify(line)).join("\n")}\n`;
  const sha256 = createHash("sha256").update(file).digest("hex");

  function recorded(details: object): void {
    const entries = [entry({ kind: "shell", recording: "r1", details: JSON.stringify(details) })];
    here.colony.tool("coral_get_audit", { id, entries });
    here.colony.streams.set("POST /v1/recordings", async function* () {
      yield header;
      yield* events;
    });
  }

  it("fetches the recording from its agent and plays it without sequences that do not draw", async () => {
    recorded({ recordingSha256: sha256 });
    const { stdout, stderr, code } = await here.world.coral("audit replay 3f2a9c1e");
    expect(here.colony.calls.at(-1)).toEqual({ route: "POST /v1/recordings", body: { agentId: "agent-a", recording: "r1" } });
    expect(stdout).toBe("hello world");
    expect(stderr).toContain("80×24");
    expect(code).toBe(0);
    expect((await here.world.coral("audit replay 3f2a9c1e --raw")).stdout).toContain("\u001b]52");
  });

  it("shortens pauses on a terminal", async () => {
    recorded({});
    const { stdout } = await here.world.coral("audit replay 3f2a9c1e --speed 10 --idle-limit 100ms", { terminal: 60, rows: 20 });
    expect(stdout).toContain("hello world");
  });

  it("writes the file with mode 0600, and does not overwrite one", async () => {
    recorded({ recordingSha256: sha256 });
    const target = join(here.world.home, "session.cast");
    expect((await here.world.coral(["audit", "replay", id, "--to", target])).code).toBe(0);
    expect(readFileSync(target, "utf8")).toBe(file);
    expect(statSync(target).mode & 0o777).toBe(0o600);
    expect((await here.world.coral(["audit", "replay", id, "--to", target])).code).not.toBe(0);
    expect((await here.world.coral(["audit", "replay", target])).stdout).toBe("hello world");
  });

  it("reports a recording that differs from the audit", async () => {
    recorded({ recordingSha256: "0".repeat(64) });
    const { stderr, code } = await here.world.coral("audit replay 3f2a9c1e");
    expect(stderr).toContain("the recording was changed");
    expect(code).toBe(1);
  });

  it("waits for the hash, which the agent reports after the command ended", async () => {
    recorded({});
    const atColony = entry({ agentId: null, hostname: null, kind: "shell", recording: "r1", phase: "ended" });
    const begun = entry({ kind: "shell", recording: "r1", phase: "begun" });
    const ended = entry({ kind: "shell", recording: "r1", phase: "ended", details: JSON.stringify({ recordingSha256: "0".repeat(64) }) });
    const answers = [[atColony], [atColony, begun], [atColony, begun, ended]];
    here.colony.replies.set("POST /v1/tools/coral_get_audit", () => {
      const entries = answers.length > 1 ? answers.shift() : answers[0];
      return { completeness: { complete: true, notes: [] }, id, entries };
    });
    expect(await here.world.coral("audit replay 3f2a9c1e")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("the recording was changed"),
    });
    recorded({});
    here.colony.tool("coral_get_audit", { id, entries: [begun] });
    expect(await here.world.coral("audit replay 3f2a9c1e")).toMatchObject({ code: 0, stdout: "hello world" });
  });

  it("names the fix for a command without a recording, a wrong speed, and an invalid file", async () => {
    here.colony.tool("coral_get_audit", { id, entries: [entry()] });
    expect((await here.world.coral("audit replay 3f2a9c1e")).stderr).toContain("has no recording");
    expect(await here.world.coral("audit replay 3f2a9c1e --speed fast")).toMatchObject({ code: 64 });
    const wrong = join(here.world.home, "wrong.cast");
    writeFileSync(wrong, "hello");
    expect((await here.world.coral(["audit", "replay", wrong])).stderr).toContain("asciicast v2");
    expect(existsSync(wrong)).toBe(true);
  });
});

describe("coral approval", () => {
  const approval: ApprovalInfo = {
    approvalId: id,
    commandId: id,
    agentId: "agent-a",
    hostname: "web-1",
    kind: "exec",
    caller: "token:ann",
    target: "host",
    command: "systemctl restart nginx",
    rule: "restarts",
    heldAt: new Date(Date.now() - 5_000).toISOString(),
    expiresAt: new Date(Date.now() + 600_500).toISOString(),
  };

  it("lists waiting commands", async () => {
    here.colony.tool("coral_list_approvals", { approvals: [approval] });
    const { stdout } = await here.world.coral("approval list");
    expect(stdout).toMatch(/3f2a9c1e +token:ann +web-1 +host +systemctl restart nginx +restarts +\d+s ago +in \d+m/);
    here.colony.tool("coral_list_approvals", { approvals: [] });
    expect((await here.world.coral("approval list")).stderr).toContain("No commands wait for approval");
  });

  it("approves and denies", async () => {
    const outcome = { approvalId: id, agentId: "agent-a", hostname: "web-1", isApproved: true, problem: null };
    here.colony.tool("coral_decide_approval", { outcomes: [outcome] });
    const approved = await here.world.coral(["approval", "approve", "3f2a9c1e", "--reason", "planned work"]);
    expect(here.colony.calls.at(-1)?.body).toEqual({ id: "3f2a9c1e", approve: true, reason: "planned work" });
    expect(approved).toMatchObject({ code: 0, stdout: "Approved 3f2a9c1e at web-1\n" });
    await here.world.coral("approval deny 3f2a9c1e --agent web-1");
    expect(here.colony.calls.at(-1)?.body).toEqual({ id: "3f2a9c1e", approve: false, agent: "web-1" });
  });

  it("exits with 1 when no agent accepted it, and passes on the colony's refusal", async () => {
    const outcome = { approvalId: id, agentId: "agent-a", hostname: "web-1", isApproved: true, problem: "it is no longer pending" };
    here.colony.tool("coral_decide_approval", { outcomes: [outcome] });
    expect(await here.world.coral("approval approve 3f2a9c1e")).toMatchObject({
      code: 1,
      stdout: "Rejected by web-1: it is no longer pending\n",
    });
    here.colony.replies.set("POST /v1/tools/coral_decide_approval", () => {
      throw new CoralError({ code: "not-permitted", message: 'Cannot approve "x": token:ann has asked for it' });
    });
    const refused = await here.world.coral("approval approve 3f2a9c1e");
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain("has asked for it");
  });
});
