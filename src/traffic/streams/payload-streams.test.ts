import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import type { LossKind } from "../core/messages.ts";
import { dnsUdp, mariadbCommands, type RecordedPayload, redisPipelineSet } from "../protocols/recorded.fixture.ts";
import { RequestGroups } from "../requests/request-groups.ts";
import { databaseDecoders } from "./decoders.ts";
import { type PayloadRecord, PayloadStreams, type PayloadStreamsOptions } from "./payload-streams.ts";
import { recognise } from "./recognise.ts";

function setUp(changes: Partial<PayloadStreamsOptions> = {}) {
  const groups = changes.groups ?? new RequestGroups();
  const losses = new Map<LossKind, number>();
  const onLoss = (loss: LossKind, count: number) => losses.set(loss, (losses.get(loss) ?? 0) + count);
  const streams = new PayloadStreams({ groups, decoders: databaseDecoders, recognise, onLoss, ...changes });
  return { groups, losses, streams, taken: () => groups.take().requests };
}

function record(bytes: Buffer | string, changes: Partial<PayloadRecord> = {}): PayloadRecord {
  const buffer = typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes;
  return {
    ...{
      connectionId: 1,
      pid: 42,
      isSent: true,
      isTls: false,
      isDatagram: false,
      protocol: null,
      role: null,
      localPort: 50_000,
      peerPort: 1234,
    },
    ...{ peerAddress: "10.0.0.9", atNs: 1e9, startNs: 0, lengthBytes: buffer.length, offsetBytes: 0, bytes: buffer },
    ...changes,
  };
}

function play(
  streams: PayloadStreams,
  recording: readonly RecordedPayload[],
  role: "client" | "server",
  changes: Partial<PayloadRecord> = {},
) {
  let atNs = 1e9;
  for (const [from, lengthBytes, head] of recording) {
    atNs += 1e6;
    streams.onPayload(record(Buffer.from(head, "base64"), { lengthBytes, isSent: from === role, atNs, startNs: atNs - 1000, ...changes }));
  }
  return atNs;
}

describe("PayloadStreams", () => {
  it("sums the requests of both ends, with peers, ports and queue times", () => {
    const { streams, taken, losses } = setUp();
    play(streams, redisPipelineSet, "client");
    play(streams, redisPipelineSet, "server", { connectionId: 2, pid: 43, localPort: 1234, peerPort: 50_000 });
    const base = { protocol: "redis", serverPort: 1234, method: "SET", route: "SET", count: 32, isError: false };
    expect(taken()).toMatchObject([
      { ...base, role: "client", pid: 42, queueCount: 0, durationSumNs: 32 * 1_001_000 },
      { ...base, role: "server", pid: 43, queueCount: 32, queueSumNs: 32_000 },
    ]);
    expect(losses.size).toBe(0);
  });

  it("uses the kernel's protocol and role", () => {
    const { streams, taken } = setUp();
    streams.onPayload(record("PING\r\n", { protocol: "redis", role: "client" }));
    streams.onPayload(record("+PONG\r\n", { isSent: false, protocol: "redis", role: "client" }));
    expect(taken()).toMatchObject([{ method: "PING", role: "client" }]);
  });

  it("completes open responses when a connection goes idle or closes", () => {
    const { streams, taken } = setUp();
    const atNs = play(streams, mariadbCommands.slice(0, -1), "client");
    expect(taken().reduce((sum, { count }) => sum + count, 0)).toBe(17);
    streams.sweep(atNs + 0.5e9);
    expect(taken()).toEqual([]);
    streams.sweep(atNs + 2e9);
    expect(taken()).toMatchObject([{ count: 1, method: "SELECT" }]);
    streams.onPayload(record(Buffer.from([1, 0, 0, 0, 14]), { atNs: atNs + 3e9 }));
    streams.onClose(1, atNs + 4e9);
    expect(taken()).toMatchObject([{ method: "PING", status: "no-reply", isError: true, durationSumNs: 1e9 }]);
    expect(streams.connectionCount).toBe(0);
  });

  it("reassembles long payloads from their records, and detects a missing one", () => {
    const { streams, taken } = setUp();
    const value = "v".repeat(9000);
    const set = `*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9000\r\n${value}\r\n`;
    const pieces = (isSecondSent: boolean) => {
      for (let offset = 0; offset < set.length; offset += 4096) {
        if (offset !== 4096 || isSecondSent)
          streams.onPayload(record(set.slice(offset, offset + 4096), { lengthBytes: set.length, offsetBytes: offset }));
      }
      streams.onPayload(record("+OK\r\n", { isSent: false }));
    };
    pieces(true);
    expect(taken()).toMatchObject([{ method: "SET", count: 1, requestBytes: set.length }]);
    pieces(false);
    streams.onPayload(record("*1\r\n$4\r\nPING\r\n"));
    streams.onPayload(record("+PONG\r\n", { isSent: false }));
    expect(taken().some(({ method }) => method === "PING")).toBe(true);
  });

  it.each(["client", "server"] as const)("counts requests whose replies were lost as undecoded, at a %s, and continues", (role) => {
    const { streams, taken, losses } = setUp();
    const request = { protocol: "redis", role, isSent: role === "client" } as const;
    const reply = { ...request, isSent: !request.isSent };
    const missed = { received: role === "client", sent: role === "server" };
    for (let count = 0; count < 100; count++) streams.onPayload(record("*1\r\n$4\r\nPING\r\n", request));
    streams.onPayload(record("*1\r\n$4\r\nECHO\r\n", { ...request, missed }));
    streams.onPayload(record("+x\r\n", reply));
    streams.onPayload(record("*1\r\n$4\r\nTIME\r\n", request));
    streams.onClose(1, 2e9, missed);
    expect(taken()).toMatchObject([{ method: "ECHO", count: 1, isError: false }]);
    expect(losses).toEqual(new Map([["undecoded", 101]]));
  });

  it("counts queries whose replies may have been lost as undecoded", () => {
    const { streams, taken, losses } = setUp();
    const [query] = (dnsUdp[0] ?? []).map((text) => Buffer.from(text, "base64")) as [Buffer, Buffer];
    streams.onPayload(record(query, { isDatagram: true, connectionId: 1, missedDatagrams: 0 }));
    streams.onPayload(record(query, { isDatagram: true, connectionId: 2, missedDatagrams: 3, atNs: 2e9 }));
    streams.sweep(20e9);
    expect(taken()).toMatchObject([{ status: "no-reply", count: 1 }]);
    expect(losses).toEqual(new Map([["undecoded", 1]]));
  });

  it("counts a connection of an unknown protocol once", () => {
    const { streams, taken, losses } = setUp();
    for (let count = 0; count < 20; count++) streams.onPayload(record("\x01\x02\x03 something else"));
    expect(losses).toEqual(new Map([["unknown-protocol", 1]]));
    streams.onPayload(record("*1\r\n$4\r\nPING\r\n"));
    expect(taken()).toEqual([]);
  });

  it("drops a decoder that decodes nothing", () => {
    const { streams, losses } = setUp();
    for (let count = 0; count < 100; count++) streams.onPayload(record("+OK\r\n", { isSent: false, protocol: "redis", role: "client" }));
    expect(losses).toEqual(
      new Map([
        ["undecoded", 64],
        ["unknown-protocol", 1],
      ]),
    );
  });

  it("evicts the least recently used connection, and counts it", () => {
    const { streams, losses, taken } = setUp({ maxConnections: 50 });
    for (let connectionId = 1; connectionId <= 200; connectionId++) {
      streams.onPayload(record("*1\r\n$4\r\nPING\r\n", { connectionId }));
      streams.onPayload(record("*1\r\n$4\r\nPING\r\n", { connectionId: 1 }));
    }
    expect(streams.connectionCount).toBe(50);
    expect(losses.get("connections-full")).toBe(150);
    for (let count = 0; count < 201; count++) streams.onPayload(record("+PONG\r\n", { connectionId: 1, isSent: false }));
    expect(taken().reduce((sum, { count }) => sum + count, 0)).toBe(201);
  });

  it("starts over when a connection is upgraded to TLS and its plaintext can be read", () => {
    const { streams, taken } = setUp();
    play(streams, mariadbCommands.slice(0, 1), "client");
    play(streams, mariadbCommands.slice(3, 7), "client", { isTls: true });
    // Records of the ciphertext continue.
    streams.onPayload(record("\x17\x03\x03\x00\x20 sealed"));
    play(streams, mariadbCommands.slice(7, 9), "client", { isTls: true });
    streams.onClose(1, 2e9);
    expect(taken()).toMatchObject([
      { isTls: true, method: "CREATE" },
      { isTls: true, method: "USE" },
      { isTls: true, method: "DROP" },
    ]);
  });

  it("survives records of any shape, and stays within its bounds", () => {
    const random = new SeededRandom(11);
    const payloads = [...mariadbCommands, ...redisPipelineSet].map(([, , head]) => Buffer.from(head, "base64"));
    const { streams, groups } = setUp({ maxConnections: 20, groups: new RequestGroups({ maxGroups: 50 }) });
    for (let round = 0; round < 20_000; round++) {
      const whole = random.pick(payloads);
      const bytes = whole.subarray(random.below(3) === 0 ? random.below(whole.length) : 0);
      streams.onPayload(
        record(bytes, {
          ...{
            connectionId: random.below(60),
            isSent: random.below(2) === 0,
            isTls: random.below(9) === 0,
            isDatagram: random.below(20) === 0,
          },
          ...{ protocol: random.pick([null, "mysql", "redis", "postgres", "kafka", "dns", "http", "mongodb", "memcached"]) },
          ...{ role: random.pick([null, "client", "server"]), isPrepared: random.below(30) === 0 },
          ...{
            lengthBytes: random.pick([bytes.length, 0, 2 ** 32 - 1, random.below(20_000)]),
            offsetBytes: random.pick([0, 0, 0, 4096, 2 ** 31]),
          },
          ...{ atNs: random.pick([1e9 + round, 0, 2 ** 53]), startNs: random.pick([0, 1e9, 2 ** 53]) },
        }),
      );
      if (random.below(50) === 0) streams.onClose(random.below(60), 1e9 + round);
      if (random.below(200) === 0) streams.sweep(5e9 + round);
    }
    expect(streams.connectionCount).toBeLessThanOrEqual(20);
    expect(groups.groupCount).toBeLessThanOrEqual(100);
  });

  it("pairs datagrams by peer and id, at a server with many peers", () => {
    const { streams, taken, losses } = setUp();
    const server = { isDatagram: true, localPort: 53, isSent: false };
    const [query, reply] = (dnsUdp[0] ?? []).map((text) => Buffer.from(text, "base64")) as [Buffer, Buffer];
    for (const [peerAddress, atNs] of [
      ["10.0.0.1", 1e9],
      ["10.0.0.2", 1.1e9],
      ["10.0.0.3", 1.2e9],
    ] as const) {
      streams.onPayload(record(query, { ...server, peerAddress, peerPort: 4000, atNs, startNs: atNs - 500 }));
    }
    streams.onPayload(record(reply, { ...server, isSent: true, peerAddress: "10.0.0.2", peerPort: 4000, atNs: 1.3e9 }));
    streams.onPayload(record(reply, { ...server, isSent: true, peerAddress: "10.0.0.1", peerPort: 4000, atNs: 1.4e9 }));
    streams.sweep(7e9);
    expect(
      taken().map(({ peerAddress, status, durationSumNs, queueCount, serverPort, role }) => [
        peerAddress,
        status,
        durationSumNs,
        queueCount,
        serverPort,
        role,
      ]),
    ).toEqual([
      ["10.0.0.2", "NOERROR", 200_000_500, 1, 53, "server"],
      ["10.0.0.1", "NOERROR", 400_000_500, 1, 53, "server"],
      ["10.0.0.3", "no-reply", 5e9, 1, 53, "server"],
    ]);
    expect(losses.size).toBe(0);
  });
});
