import { setMaxListeners } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { createAuthority, createKey } from "../../src/transport/index.ts";
import {
  type Attack,
  type ClientCertificate,
  callRpc,
  drip,
  halfHello,
  sendBytes,
  sendInsideTls,
  sendNothing,
} from "../support/abusive-clients.ts";
import { type AgentDaemon, type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { runCoral } from "../support/run-coral.ts";
import { seededBytes, seededRandom } from "../support/seeded-random.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

const service = "/coral.colony.v1.ColonyService";
const mebibyte = 1024 ** 2;

function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

function certificateIn(directory: string): ClientCertificate {
  return { cert: readFileSync(join(directory, "cert.pem"), "utf8"), key: readFileSync(join(directory, "key.pem"), "utf8") };
}

/** A certificate of a CA that this colony does not trust. */
async function foreignCertificate(directory: string): Promise<ClientCertificate> {
  const authority = await createAuthority(join(directory, "ca"), "elsewhere-dev-123456");
  const { keyPem, publicKeyDer } = await createKey(directory);
  const { certPem } = await authority.issueAgent({ agentId: "foreign", publicKeyDer, ttlMs: 3_600_000, nowMs: Date.now() });
  return { cert: certPem, key: keyPem };
}

/** Connections that the colony must close. */
function startAttacks(attack: Attack): Promise<string>[] {
  const { random } = attack;
  const longBody =
    "POST /v1/tools/coral_get_status HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n\r\n{";
  return [
    ...times(800, () => sendNothing(attack)),
    ...times(100, () => drip(attack, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n", "X-Slow: yes\r\n")),
    ...times(50, () => drip(attack, longBody, " ")),
    ...times(50, () => drip(attack, halfHello(random), "")),
    ...times(50, () => sendBytes(attack, seededBytes(random, 2_000))),
    ...times(50, () => sendBytes(attack, Buffer.concat([Buffer.from([0x16, 0x03, 0x03]), seededBytes(random, 2_000)]))),
    sendBytes(attack, `GET / HTTP/1.1\r\nX: ${"y".repeat(mebibyte)}\r\n\r\n`),
    sendBytes(attack, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  ];
}

async function sendGarbage(attack: Attack, certificates: ClientCertificate[]): Promise<void> {
  const { random } = attack;
  for (const alpn of ["h2", "http/1.1", "coral-tunnel/1"]) {
    for (const certificate of [undefined, ...certificates]) {
      await Promise.race([sendInsideTls(attack, alpn, seededBytes(random, 3_000), certificate), sleep(2_000)]);
    }
  }
  for (const method of ["Join", "Renew", "Register", "Nothing"]) {
    for (const body of [seededBytes(random, 500), Buffer.alloc(6 * mebibyte), Buffer.alloc(0), seededBytes(random, 65_536)]) {
      expect(await callRpc(attack, `${service}/${method}`, body)).not.toBe(200);
      expect(await callRpc(attack, `${service}/${method}`, body, { "content-type": "application/json" })).not.toBe(200);
    }
  }
  expect(await callRpc(attack, `${service}/Join`, seededBytes(random, 100), { "content-encoding": "gzip" })).not.toBe(200);
}

async function misuseSocket(attack: Attack): Promise<void> {
  const json = (body: string): string =>
    `POST /v1/tools/coral_query_sql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`;
  await sendBytes(attack, seededBytes(attack.random, 5_000));
  await sendBytes(attack, json(`{"sql": "${"x".repeat(12 * mebibyte)}"}`));
  await sendBytes(attack, json("[".repeat(500_000)));
  await sendBytes(attack, json(`{"sql": ["SELECT 1"], "maxRows": -1}`));
  await sendBytes(attack, json('{"sql": "SELECT 1"').slice(0, -5));
  await sendBytes(attack, json('{"__proto__": {"sql": "SELECT 1"}}'));
}

/** A regular client that sends requests in a loop; returns the duration of each. */
async function sendRegularRequests(colony: ColonyDaemon, until: AbortSignal): Promise<number[]> {
  const tookMs: number[] = [];
  while (!until.aborted) {
    const startMs = performance.now();
    const { code, stderr } = await runCoral(["status"], { home: colony.home });
    expect(stderr).toBe("");
    expect(code).toBe(0);
    tookMs.push(performance.now() - startMs);
    await sleep(300);
  }
  return tookMs;
}

async function healthEvents(colony: ColonyDaemon): Promise<unknown[]> {
  return (await colony.tool<{ events: unknown[] }>("coral_list_events", { kind: "agent-health-changed" })).events;
}

async function newestSeq(colony: ColonyDaemon, agent: AgentDaemon): Promise<number> {
  return Number((await colony.sql(`SELECT max(seq) AS n FROM host WHERE agent_id = '${agent.agentId}'`))[0]?.["n"] ?? 0);
}

it("the colony survives oversized, truncated, random and slow clients: others are served, and memory stays bounded", async () => {
  await using home = makeTestHome();
  await using other = makeTestHome();
  const config = "pull:\n  interval: 500ms\nhealth:\n  degraded_after: 10s\n  unhealthy_after: 30s\n";
  await using colony = await startColony({ home: home.path, config });
  await using agent = await startAgent({ home: home.path, config: "host:\n  interval: 1s\n" });
  await agent.waitUntilConnected();
  await waitFor("rows", async () => (await newestSeq(colony, agent)) > 1);
  const rssBefore = colony.rssBytes();
  const seqBefore = await newestSeq(colony, agent);
  const random = seededRandom(44);
  const over = new AbortController();
  setMaxListeners(0, over.signal);
  const regularOver = new AbortController();
  const port: Attack = { target: { port: colony.port, host: "127.0.0.1" }, random, over: over.signal };
  const sockets = [colony.paths.socketFile, agent.paths.socketFile].map(
    (path): Attack => ({ target: { path }, random, over: over.signal }),
  );
  const certificates = [await foreignCertificate(other.path), certificateIn(agent.paths.identityDirectory)];
  const regularRequests = sendRegularRequests(colony, regularOver.signal);
  const attacks = startAttacks(port);
  await Promise.all([sendGarbage(port, certificates), ...sockets.map(misuseSocket)]);
  // The colony's longest timeout is 30 s, for a request's body; all others are 10 s.
  const outcomes = await Promise.all(attacks.map((attack) => Promise.race([attack, sleep(45_000, "attack ended" as const)])));
  regularOver.abort();
  over.abort();
  const tookMs = await regularRequests;
  expect(outcomes.filter((outcome) => outcome !== "disconnected")).toEqual([]);
  expect(tookMs.length).toBeGreaterThan(5);
  expect(Math.max(...tookMs)).toBeLessThan(40_000);
  expect(await healthEvents(colony)).toEqual([]);
  expect(await newestSeq(colony, agent)).toBeGreaterThan(seqBefore + 3);
  expect(colony.logLines().filter(({ level }) => level === "error")).toEqual([]);
  expect(colony.rssBytes() - rssBefore).toBeLessThan(150 * mebibyte);
  const { agents } = await colony.tool<{ agents: { total: number } }>("coral_get_status");
  expect(agents.total).toBe(1);
  await agent.stop();
});
