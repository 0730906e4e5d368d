import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { queryServices } from "./query-services.ts";
import { openStoredHosts, type StoredHosts } from "./stored-hosts.fixture.ts";

const minuteMs = 60_000;
const nowMs = Date.now();
const api = { service: "api", named_by: "systemd-unit", protocol: "tcp", port: 8080, exe: "/usr/bin/node" };

let hosts: StoredHosts;

beforeAll(async () => {
  hosts = await openStoredHosts();
  await hosts.add("web-1", {
    host: [{ atMs: nowMs - 10_000 }],
    listener: [
      { ...api, atMs: nowMs - 2 * minuteMs, service: "gone", address: "0.0.0.0", pid: 5 },
      { ...api, atMs: nowMs - minuteMs, address: "0.0.0.0", pid: 11 },
      { ...api, atMs: nowMs - minuteMs, address: "::", pid: 11 },
      { ...api, atMs: nowMs - minuteMs, address: "0.0.0.0", pid: 12 },
      { ...api, atMs: nowMs - minuteMs, address: "127.0.0.1", port: 9090, pid: 11 },
      { ...api, atMs: nowMs - minuteMs, service: "hidden", named_by: "port", address: "0.0.0.0", port: 22, exe: null },
    ],
  });
  await hosts.add("web-2", {
    host: [{ atMs: nowMs - minuteMs }],
    listener: [{ ...api, atMs: nowMs - minuteMs, address: "10.0.0.1", pid: 7 }],
  });
  // Samples of listeners went on and found nothing.
  await hosts.add("empty-1", { host: [{ atMs: nowMs - 1_000 }], listener: [{ ...api, atMs: nowMs - 10 * minuteMs, pid: 3 }] });
  // Silent for an hour: the last that is known.
  await hosts.add("silent-1", {
    host: [{ atMs: nowMs - 60 * minuteMs }],
    listener: [{ ...api, atMs: nowMs - 61 * minuteMs, address: "::1", pid: 4 }],
  });
});

afterAll(() => hosts[Symbol.asyncDispose]());

describe("queryServices()", () => {
  it("gives each agent's newest sample, by service and port", async () => {
    const rows = await queryServices(hosts.store, { nowMs });
    expect(rows.map((row) => [row.service, row.agentId, row.port, row.instances, row.pids, row.addresses])).toEqual([
      ["api", "silent-1", 8080, 1, [4], ["::1"]],
      ["api", "web-1", 8080, 2, [11, 12], ["0.0.0.0", "::"]],
      ["api", "web-1", 9090, 1, [11], ["127.0.0.1"]],
      ["api", "web-2", 8080, 1, [7], ["10.0.0.1"]],
      ["hidden", "web-1", 22, 1, [], ["0.0.0.0"]],
    ]);
    expect(rows[1]).toMatchObject({
      namedBy: "systemd-unit",
      protocol: "tcp",
      exe: "/usr/bin/node",
      sampledAt: new Date(nowMs - minuteMs).toISOString(),
    });
    expect(rows[4]?.exe).toBeNull();
  });
});
