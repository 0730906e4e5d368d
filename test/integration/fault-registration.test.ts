import { writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { CoralError } from "../../src/base/errors.ts";
import { colonyPaths } from "../../src/config/index.ts";
import { generateKey, joinColony, parseToken, registerAgent } from "../../src/transport/index.ts";
import { InProcessColony, type RegistrationChanges, registration, ScriptedAgent } from "../support/in-process-colony.ts";
import { validPullReply } from "../support/pull-replies.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

interface Status {
  agents: { total: number; healthy: number };
  warnings: { kind: string; message: string; agentId?: string }[];
}
interface Events {
  events: { kind: string; agentId: string | null; message: string; severity: string }[];
}

const hostOf = (hostname: string, machineId: string, bootId = "boot") => ({
  hostname,
  machineId,
  bootId,
  os: "Linux",
  kernel: "0",
  arch: "x64",
});

function connect(
  colony: InProcessColony,
  identity: Awaited<ReturnType<InProcessColony["join"]>>,
  epoch: string,
  register: RegistrationChanges,
) {
  return ScriptedAgent.connect(colony, { identity, epoch, register, pull: (request) => validPullReply(request, epoch) });
}

async function rowsByEpoch(colony: InProcessColony): Promise<Record<string, number>> {
  const rows = await colony.sql("SELECT epoch, count(*) AS n, count(DISTINCT seq) AS seqs FROM host_process GROUP BY epoch");
  for (const row of rows) expect(row["seqs"]).toBe(row["n"]);
  return Object.fromEntries(rows.map((row) => [String(row["epoch"]), Number(row["n"])]));
}

describe("two hosts with one agent id", () => {
  it("are distinguished: the second is refused, status and events report it, and the first keeps working", async () => {
    await using colony = await InProcessColony.start();
    const identity = await colony.join("cloned");
    await using first = await connect(colony, identity, "first", { host: hostOf("alpha", "machine-a") });
    await waitFor("rows of the first", () => first.pulls > 2);

    for (let attempt = 0; attempt < 3; attempt++) {
      const refused = connect(colony, identity, "second", { host: hostOf("beta", "machine-b") });
      await expect(refused).rejects.toMatchObject({
        code: "already-exists",
        message: expect.stringContaining('host "alpha" is connected with the same id'),
      });
    }
    const { warnings, agents } = await colony.tool<Status>("coral_get_status");
    expect(agents).toMatchObject({ total: 1, healthy: 1 });
    const duplicate = warnings.filter(({ kind }) => kind === "duplicate-agent");
    expect(duplicate).toHaveLength(1);
    expect(duplicate[0]).toMatchObject({ agentId: "cloned", message: expect.stringMatching(/used by 2 hosts: .*alpha.*beta/) });
    const { events } = await colony.tool<Events>("coral_list_events", { kind: "agent-id-duplicate" });
    // Retries every 30 s are one event, not thousands.
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({ agentId: "cloned", severity: "error", message: expect.stringContaining('"beta" (refused)') });

    const before = first.pulls;
    await waitFor("the first to be pulled on", () => first.pulls > before + 2);
    expect(Object.keys(await rowsByEpoch(colony))).toEqual(["first"]);
  });

  it("that register at the same moment are not both accepted", async () => {
    await using colony = await InProcessColony.start();
    const identity = await colony.join("cloned");
    const signal = new AbortController().signal;
    const { endpoint } = colony.colony;
    const claims = await Promise.all(
      ["alpha", "beta", "gamma", "delta"].map((hostname) =>
        connect(colony, identity, hostname, { host: hostOf(hostname, `machine-${hostname}`) }).catch((error: unknown) =>
          CoralError.from(error),
        ),
      ),
    );
    const agents = claims.filter((claim) => claim instanceof ScriptedAgent);
    await waitFor("one of them to be pulled", () => agents.some((agent) => agent.pulls > 3));
    const pulled = agents.filter((agent) => agent.pulls > 3);
    expect(pulled).toHaveLength(1);
    expect(Object.keys(await rowsByEpoch(colony))).toHaveLength(1);
    // The losers learn about the winner when they retry.
    const again = registerAgent({
      endpoint,
      identity,
      signal,
      request: registration(identity, "again", { host: hostOf("omega", "machine-o") }),
    });
    await expect(again).rejects.toMatchObject({ code: "already-exists" });
    await Promise.all(agents.map((agent) => agent.tunnel.close("the test is over")));
  });

  it("are not assumed for a restarted agent or a rebooted host while the old tunnel hangs", async () => {
    await using colony = await InProcessColony.start();
    const identity = await colony.join("solo");
    const host = hostOf("alpha", "machine-a");
    const answersOnce = () =>
      ScriptedAgent.connect(colony, {
        identity,
        epoch: "one",
        register: { host },
        pull: (request) => validPullReply(request, "one"),
        beforeHello: () => new Promise(() => undefined),
      });
    await using before = await answersOnce();
    await waitFor("rows", () => before.pulls > 2);
    // The process was killed and restarted; the colony still holds the old tunnel.
    await using restarted = await answersOnce();
    await waitFor("rows after the restart", () => restarted.pulls > 2);
    expect((await before.tunnel.closed).message).toContain("replaced by a newer registration");
    await using rebooted = await connect(colony, identity, "one", { host: hostOf("alpha", "machine-a", "boot-2") });
    await waitFor("rows after the reboot", () => rebooted.pulls > 2);
    const { warnings, agents } = await colony.tool<Status>("coral_get_status");
    expect(agents).toMatchObject({ total: 1, healthy: 1 });
    expect(warnings.filter(({ kind }) => kind === "duplicate-agent")).toEqual([]);
    expect(Object.keys(await rowsByEpoch(colony))).toEqual(["one"]);
  });
});

describe("two agents of one host with one id", () => {
  it("are also distinguished: a copied home does not displace the first agent", async () => {
    await using colony = await InProcessColony.start();
    const identity = await colony.join("copied");
    const host = hostOf("alpha", "machine-a");
    await using first = await connect(colony, identity, "one", { host });
    await waitFor("rows of the first", () => first.pulls > 2);
    await expect(connect(colony, identity, "one", { host })).rejects.toMatchObject({
      code: "already-exists",
      message: expect.stringContaining("another agent of this host is connected with the same id; if this directory was copied from it"),
    });
    const pulls = first.pulls;
    await waitFor("more rows of the first", () => first.pulls > pulls + 2);
    const { warnings } = await colony.tool<Status>("coral_get_status");
    expect(warnings).toMatchObject([{ kind: "duplicate-agent", message: expect.stringContaining("is used by two agents on alpha") }]);
  });
});

describe("a registration", () => {
  const oversized: Record<string, RegistrationChanges> = {
    "a label of a megabyte": { labels: { zone: "x".repeat(1_000_000) } },
    "ten thousand labels": { labels: Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`l${index}`, "x"])) },
    "a long epoch": { epoch: "e".repeat(100_000) },
    "a long host name": { host: hostOf("h".repeat(100_000), "m") },
    "ten thousand capabilities": { capabilities: Array.from({ length: 10_000 }, () => ({ name: "x", available: true, reason: "" })) },
    "a reason of a megabyte": { capabilities: [{ name: "x", available: false, reason: "y".repeat(1_000_000) }] },
  };

  it("above the size limit is refused and leaves nothing behind", async () => {
    await using colony = await InProcessColony.start();
    const identity = await colony.join("large");
    const signal = new AbortController().signal;
    for (const changes of Object.values(oversized)) {
      const request = registration(identity, "epoch", changes);
      await expect(registerAgent({ endpoint: colony.colony.endpoint, identity, request, signal })).rejects.toMatchObject({
        code: "invalid",
      });
    }
    expect((await colony.tool<Status>("coral_get_status")).agents.total).toBe(0);
    await using agent = await connect(colony, identity, "fine", {});
    await waitFor("rows", () => agent.pulls > 2);
  });
});

describe("a join", () => {
  it("whose response was lost can be repeated by the same agent with the same key only", async () => {
    await using colony = await InProcessColony.start();
    const { token: text } = await colony.colony.tokens.create({ kind: "join", name: "", permission: null, validForMs: 60_000, uses: 1 });
    const token = parseToken(text, "join");
    const signal = new AbortController().signal;
    const [key, other] = [generateKey(), generateKey()];
    const join = (agentId: string, agentKey: typeof key, secret = token.secret) =>
      joinColony({ token: { ...token, secret }, agentId, key: agentKey, signal });
    await join("first", key);
    await expect(join("first", key)).resolves.toMatchObject({ certPem: expect.stringContaining("BEGIN CERTIFICATE") });
    for (const refused of [join("first", other), join("second", key), join("first", key, "wrong")]) {
      await expect(refused).rejects.toMatchObject({ code: "unauthenticated" });
    }
    await colony.colony.tokens.revoke(token.tokenId);
    await expect(join("first", key)).rejects.toMatchObject({ message: expect.stringContaining("revoked") });
  });
});

describe("a revoked agent", () => {
  it("stays revoked after the colony's store was damaged and recreated", async () => {
    await using home = makeTestHome();
    const first = await InProcessColony.start({ home: home.path });
    const identity = await first.join("outcast");
    const agent = await connect(first, identity, "one", {});
    await waitFor("rows", () => agent.pulls > 2);
    await first.tool("coral_revoke_agent", { agent: "outcast" });
    await agent.tunnel.closed;
    await first[Symbol.asyncDispose]();
    writeFileSync(colonyPaths(home.path, first.colonyId).databaseFile, "no database");

    await using second = await InProcessColony.start({ home: home.path });
    expect((await second.tool<Status>("coral_get_status")).agents.total).toBe(0);
    await expect(connect(second, identity, "one", {})).rejects.toMatchObject({
      code: "unauthenticated",
      message: expect.stringContaining("revoked"),
    });
    await expect(second.join("outcast")).rejects.toMatchObject({ message: expect.stringContaining("was revoked") });
  });
});
