import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { silentLogger } from "../../base/log.ts";
import {
  CommandOrderSchema,
  type DecideApprovalRequest,
  type ExecuteResponse,
  ExecuteResponseSchema,
} from "../../proto/coral/agent/v1/commands_pb.ts";
import { watchApprovals } from "../commands/watch-approvals.ts";
import { openAuditWorld, registryOf } from "./audit.fixture.ts";
import { type HeldCommand, PendingApprovals } from "./pending-approvals.ts";

const contextOf = (caller: string) => ({ signal: new AbortController().signal, caller, from: "socket", through: "cli" as const });

async function setUp(options: { allowsOwn?: boolean; decide?: () => void } = {}) {
  const world = await openAuditWorld();
  const decisions: DecideApprovalRequest[] = [];
  const decideApproval = (request: DecideApprovalRequest) => {
    options.decide?.();
    decisions.push(request);
    return {};
  };
  const registry = registryOf({ "web-1": { decideApproval }, "web-2": { decideApproval }, away: null });
  const { store, clock, recorder: audit } = world;
  const approvals = new PendingApprovals({ store, registry, audit, allowsOwn: () => options.allowsOwn ?? false, clock, log: silentLogger });
  const held = (more: Partial<HeldCommand> = {}): HeldCommand => ({
    agentId: "web-1",
    commandId: "abcd1234",
    approvalId: "abcd1234",
    kind: "exec",
    caller: "token:ann",
    target: "host",
    command: "systemctl restart nginx",
    rule: "restarts",
    expiresAtMs: clock.nowMs + 60_000,
    ...more,
  });
  return { world, approvals, held, decisions, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

test("PendingApprovals lists held commands, redacted, and drops ended and expired ones", async () => {
  await using it = await setUp();
  it.approvals.held(it.held({ command: "mysql -phunter22" }));
  it.approvals.held(it.held({ agentId: "away" }));
  expect(await it.approvals.list()).toEqual([
    expect.objectContaining({ approvalId: "abcd1234", hostname: "web-1.host", caller: "token:ann", command: "mysql -p***" }),
  ]);
  it.approvals.gone("web-1", "abcd1234");
  expect(await it.approvals.list()).toEqual([]);
  it.approvals.held(it.held());
  it.world.clock.nowMs += 180_000;
  expect(await it.approvals.list()).toEqual([]);
});

test("PendingApprovals records a decision before sending it to the agent", async () => {
  await using it = await setUp();
  it.approvals.held(it.held());
  const outcomes = await it.approvals.decide({ approvalId: "abcd", isApproved: true, reason: "planned" }, contextOf("token:bob"));
  expect(outcomes).toEqual([{ approvalId: "abcd1234", agentId: "web-1", hostname: "web-1.host", isApproved: true, problem: null }]);
  expect(it.decisions).toMatchObject([{ approvalId: "abcd1234", isApproved: true, decidedBy: "token:bob", reason: "planned" }]);
  expect(await it.world.entries()).toMatchObject([
    { kind: "approval", phase: "decided", reason: "approved", caller: "token:bob", command_id: "abcd1234", rule: "restarts" },
  ]);
  expect(await it.approvals.list()).toEqual([]);
});

test("PendingApprovals lets callers deny but not approve their own commands", async () => {
  await using it = await setUp();
  it.approvals.held(it.held());
  await expect(it.approvals.decide({ approvalId: "abcd1234", isApproved: true }, contextOf("token:ann"))).rejects.toMatchObject({
    code: "not-permitted",
  });
  expect(it.decisions).toEqual([]);
  await it.approvals.decide({ approvalId: "abcd1234", isApproved: false }, contextOf("token:ann"));
  expect(it.decisions).toMatchObject([{ isApproved: false }]);
});

test("PendingApprovals lets callers approve their own commands when the config allows it", async () => {
  await using it = await setUp({ allowsOwn: true });
  it.approvals.held(it.held());
  await it.approvals.decide({ approvalId: "abcd1234", isApproved: true }, contextOf("token:ann"));
  expect(it.decisions).toHaveLength(1);
});

test("PendingApprovals decides a command at every agent that holds it, or at one", async () => {
  await using it = await setUp();
  it.approvals.held(it.held());
  it.approvals.held(it.held({ agentId: "web-2" }));
  await it.approvals.decide({ approvalId: "abcd1234", agentId: "web-2", isApproved: true }, contextOf("token:bob"));
  expect((await it.approvals.list()).map(({ agentId }) => agentId)).toEqual(["web-1"]);
  it.approvals.held(it.held({ agentId: "web-2" }));
  expect(await it.approvals.decide({ approvalId: "abcd1234", isApproved: false }, contextOf("token:bob"))).toHaveLength(2);
});

test("PendingApprovals refuses unknown and ambiguous ids", async () => {
  await using it = await setUp();
  it.approvals.held(it.held());
  it.approvals.held(it.held({ approvalId: "abcd9999", commandId: "abcd9999" }));
  const decide = (approvalId: string) => it.approvals.decide({ approvalId, isApproved: true }, contextOf("token:bob"));
  await expect(decide("ffff")).rejects.toMatchObject({ code: "not-found" });
  await expect(decide("abcd")).rejects.toMatchObject({ code: "invalid" });
  await expect(decide("abc")).rejects.toMatchObject({ code: "not-found" });
});

test("PendingApprovals reports an agent that does not accept the decision", async () => {
  await using it = await setUp({
    decide: () => {
      throw new ConnectError("no such approval", Code.NotFound);
    },
  });
  it.approvals.held(it.held());
  const [outcome] = await it.approvals.decide({ approvalId: "abcd1234", isApproved: true }, contextOf("token:bob"));
  expect(outcome?.problem).toBe("it is no longer pending");
  expect((await it.world.entries()).map((row) => row["phase"])).toEqual(["decided", "ended"]);
  expect(await it.approvals.list()).toEqual([]);
});

test("PendingApprovals finds commands that bypassed the colony in the audit of their agent", async () => {
  await using it = await setUp();
  const shared = { kind: "exec", caller: "local:uid=1000", target: "host", command: "reboot", rule: "restarts" };
  await it.world.write({ ...shared, phase: "held", command_id: "local-1" }, { ...shared, phase: "held", command_id: "local-2" });
  await it.world.write({ ...shared, phase: "denied", command_id: "local-2", reason: "no approval in time" });
  await it.world.pull();
  expect(await it.approvals.list()).toEqual([
    expect.objectContaining({ approvalId: "local-1", agentId: "web-1", command: "reboot", expiresAt: null }),
  ]);
  await it.approvals.decide({ approvalId: "local-1", isApproved: true }, contextOf("token:bob"));
  expect(it.decisions).toMatchObject([{ approvalId: "local-1", isApproved: true }]);
  // The pulled audit still shows it as held.
  expect(await it.approvals.list()).toEqual([]);
});

test("watchApprovals() tracks a held command until it starts or ends", async () => {
  await using it = await setUp();
  const sent: ExecuteResponse[] = [];
  const order = create(CommandOrderSchema, { commandId: "abcd1234", kind: "exec", text: "ls", caller: { name: "token:ann" } });
  const send = (response: ExecuteResponse): Promise<boolean> => {
    sent.push(response);
    return Promise.resolve(true);
  };
  {
    using watched = watchApprovals({ approvals: it.approvals, agentId: "web-1", order, send });
    const value = { approvalId: "abcd1234", rule: "restarts", expiresAtMs: BigInt(it.world.clock.nowMs + 1_000) };
    const held = create(ExecuteResponseSchema, { event: { case: "approvalNeeded", value } });
    await watched.send(held);
    expect(await it.approvals.list()).toHaveLength(1);
    await watched.send(create(ExecuteResponseSchema, { event: { case: "started", value: {} } }));
    expect(await it.approvals.list()).toHaveLength(0);
    await watched.send(held);
  }
  expect(await it.approvals.list()).toHaveLength(0);
  expect(sent).toHaveLength(3);
});
