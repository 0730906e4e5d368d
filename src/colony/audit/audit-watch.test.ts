import { expect, test } from "vitest";
import { silentLogger } from "../../base/log.ts";
import type { VerifyAuditRequest } from "../../proto/coral/agent/v1/audit_pb.ts";
import { openAuditWorld, registryOf } from "./audit.fixture.ts";
import { AuditWatch } from "./audit-watch.ts";

type World = Awaited<ReturnType<typeof openAuditWorld>>;

const { signal } = new AbortController();

function watchOf(world: World): AuditWatch {
  const verifyAudit = async ({ entries }: VerifyAuditRequest) => {
    const rows = await world.agent.query("SELECT entry, hash FROM audit ORDER BY seq");
    const links = rows.map((row) => ({ chainId: world.agent.epoch, entry: BigInt(Number(row["entry"])), hash: String(row["hash"]) }));
    return {
      head: links.at(-1) ?? { chainId: world.agent.epoch, entry: 0n, hash: "" },
      links: links.filter(({ entry }) => entries.includes(entry)),
    };
  };
  return new AuditWatch({ store: world.store, registry: registryOf({ "web-1": { verifyAudit } }), clock: world.clock, log: silentLogger });
}

const events = (world: World) =>
  world.store.query("SELECT severity, agent_id, message FROM events WHERE kind = 'audit-broken' ORDER BY time");
const entry = { kind: "exec", phase: "begun", command: "ls" };

test("AuditWatch reports nothing for chains that grow", async () => {
  await using world = await openAuditWorld();
  const watch = watchOf(world);
  for (let round = 0; round < 3; round++) {
    await world.write(entry, entry);
    await world.pull();
    await watch.checkPulled();
    await watch.checkAgents(signal);
  }
  expect(await events(world)).toEqual([]);
});

test("AuditWatch reports a rewritten chain once", async () => {
  await using world = await openAuditWorld();
  const watch = watchOf(world);
  await world.write(entry, entry, entry);
  await world.pull();
  await watch.checkPulled();
  await world.rewrite(2, "nothing");
  await watch.checkAgents(signal);
  await watch.checkAgents(signal);
  await world.write(entry);
  await world.pull();
  await watch.checkPulled();
  await watch.checkPulled();
  expect(await events(world)).toEqual([
    { severity: "error", agent_id: "web-1", message: expect.stringContaining("entry 3 was changed after it was pulled") },
    {
      severity: "error",
      agent_id: "web-1",
      message: expect.stringContaining("entry 4 does not follow the stored entry 3"),
    },
  ]);
});

test("AuditWatch reports a truncated chain", async () => {
  await using world = await openAuditWorld();
  const watch = watchOf(world);
  await world.write(entry, entry, entry);
  await world.pull();
  await world.agent.query("DELETE FROM audit WHERE seq > 1");
  await watch.checkAgents(signal);
  expect(await events(world)).toEqual([
    expect.objectContaining({ message: expect.stringContaining("the chain ends at entry 1, but entry 3 was already pulled") }),
  ]);
});
