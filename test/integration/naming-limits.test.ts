/** Agents' limits on reverse DNS lookups, from the registration to the queries that a DNS server receives. */

import { describe, expect, it } from "vitest";
import { dnsReply, ptrTo, recordTypes, startDnsServer } from "../../src/colony/discovery/endpoint-names/dns-server.fixture.ts";
import { batchFromRows } from "../../src/store/columns/column-batch.ts";
import { encodeBatch } from "../../src/store/columns/column-codec.ts";
import { connection, type RowOf } from "../../src/store/signals/index.ts";
import { InProcessColony, type RegistrationChanges, ScriptedAgent } from "../support/in-process-colony.ts";
import { wireBatch } from "../support/pull-replies.ts";
import { waitFor } from "../support/wait-for.ts";

function callsTo(addresses: readonly string[]): RowOf<typeof connection.columns>[] {
  const at = Date.now() * 1_000;
  return addresses.map((address, index) => ({
    ...{ at, mono_ms: performance.now(), role: "client", service: "api", pid: 7, start_ticks: 1, netns: 1, attribution: "process_fd" },
    ...{ protocol: "tcp", client_address: "10.0.0.5", client_port: 5_000 + index, server_address: address, server_port: 443 },
    ...{ state: "open", first_seen: at, last_seen: at, connections: 1, bytes_sent: 1, bytes_received: 1, rtt_us: 1, retransmits: 0 },
    ...{ refused: null, reset: null, timed_out: null },
  }));
}

/** An agent that reports the same few connections once. */
async function watch(colony: InProcessColony, agentId: string, addresses: readonly string[], register: RegistrationChanges) {
  const identity = await colony.join(agentId);
  const rows = callsTo(addresses);
  const batch = wireBatch(encodeBatch(batchFromRows(connection, rows), 1));
  return ScriptedAgent.connect(colony, {
    identity,
    epoch: agentId,
    register,
    pull: (request) => {
      const isTold = request.cursors.some(({ signal, afterSeq }) => signal === "connection" && afterSeq >= BigInt(rows.length));
      const slice = { signal: "connection", oldestSeq: 1n, nextSeq: BigInt(rows.length) + 1n };
      return { epoch: agentId, slices: [isTold ? slice : { ...slice, batch }], more: false };
    },
  });
}

describe("naming limits of agents", () => {
  it("are respected: the colony sends no query for addresses that only opted-out agents see", async () => {
    await using server = await startDnsServer((question) => dnsReply(question, [ptrTo("partner.example.com")]));
    await using colony = await InProcessColony.start({
      configure: (config) => ({
        ...config,
        serviceDiscovery: {
          ...config.serviceDiscovery,
          intervalMs: 100,
          externalResolution: { ...config.serviceDiscovery.externalResolution, dnsServers: [server.address] },
        },
      }),
    });
    await using optedOut = await watch(colony, "opted-out", ["203.0.113.1", "203.0.113.2"], { outsideNames: { noReverseDns: true } });
    await waitFor("the opted-out agent to be pulled", () => optedOut.pulls > 2);
    await using open = await watch(colony, "open", ["203.0.113.2", "203.0.113.3"], {});
    await waitFor("the other agent to be pulled", () => open.pulls > 2);
    const asked = (): string[] => server.questions.filter(({ type }) => type === recordTypes.PTR).map(({ name }) => name);
    await waitFor("names", () => asked().length >= 2);
    const pulls = open.pulls;
    await waitFor("some more rounds", () => open.pulls > pulls + 10);
    expect([...new Set(asked())].sort()).toEqual(["2.113.0.203.in-addr.arpa", "3.113.0.203.in-addr.arpa"]);
  });
});
