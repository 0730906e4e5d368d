import { describe, expect, it } from "vitest";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import { serviceInstance } from "../../store/signals/index.ts";
import type { ManagedServices } from "../managed/managed-services.ts";
import { ServiceIdentities } from "../naming/service-identities.ts";
import { createServiceNamer, noTrafficNames } from "../naming/service-namer.ts";
import { defaultDiscovery, managedOf, scanOf, socketOf, type TestScan } from "./discovery-scan.fixture.ts";
import { buildInstances, instanceRow, type ServiceInstance } from "./service-instances.ts";

function build(test: TestScan, more: { config?: Partial<AgentDiscoveryConfig>; managed?: ManagedServices; maxInstances?: number } = {}) {
  const scan = scanOf(test);
  const config = { ...defaultDiscovery, ...more.config };
  const managed = more.managed ?? managedOf([]);
  const namer = createServiceNamer({ scan, config, managed, traffic: noTrafficNames, identities: new ServiceIdentities("vm-1") });
  return {
    scan,
    managed,
    ...buildInstances({ scan, namer, config, managed, ...(more.maxInstances === undefined ? {} : { maxInstances: more.maxInstances }) }),
  };
}
const text = ({ name, protocol, port, address, facts, method }: ServiceInstance): string =>
  `${name.name} ${protocol}:${port} ${address} pid ${facts?.entry.pid ?? null} ${method}`;

describe("buildInstances()", () => {
  it("has one instance per process and port, for any number of addresses and sockets", () => {
    const listeners = [
      socketOf("127.0.0.1:80", null, null, { owners: [5, 6] }),
      socketOf("0.0.0.0:80", null, null, { owners: [5] }),
      socketOf(":::80", null, null, { owners: [5] }),
      socketOf("0.0.0.0:443", null, null, { owners: [5] }),
      socketOf("127.0.0.1:3306", null, null),
    ];
    const { instances } = build({
      processes: [
        { pid: 5, service: "web" },
        { pid: 6, service: "web" },
      ],
      listeners,
    });
    expect(instances.map(text)).toEqual([
      "web tcp:80 0.0.0.0 pid 5 listening_socket",
      "web tcp:80 127.0.0.1 pid 6 listening_socket",
      "web tcp:443 0.0.0.0 pid 5 listening_socket",
      "unknown-3306 tcp:3306 127.0.0.1 pid null listening_socket",
    ]);
    expect([...instances[0]!.addresses]).toEqual(["10.0.0.1"]);
    expect([...instances[1]!.addresses]).toEqual([]);
  });

  it("finds workers by their outgoing connections, and skips command-line tools", () => {
    const connections = [
      socketOf("10.0.0.1:40000", "10.0.0.9:5432", "client", { owners: [7] }),
      socketOf("10.0.0.2:40001", "10.0.0.9:5432", "client", { owners: [7] }),
      socketOf("10.0.0.1:40002", "10.0.0.9:443", "client", { owners: [8] }),
      socketOf("10.0.0.1:40003", "10.0.0.9:443", "client", { owners: [5] }),
      socketOf("10.0.0.1:22", "10.0.0.9:50000", "server", { owners: [9] }),
      socketOf("10.0.0.1:40004", "10.0.0.9:443", "client"),
    ];
    const processes = [
      { pid: 5, service: "web" },
      { pid: 7, service: "worker" },
      { pid: 8, service: "curl" },
      { pid: 9, service: "sshd" },
    ];
    const { instances } = build({ processes, listeners: [socketOf("0.0.0.0:80", null, null, { owners: [5] })], connections });
    expect(instances.map(text)).toEqual(["web tcp:80 0.0.0.0 pid 5 listening_socket", "worker null:null null pid 7 connection_tracking"]);
    expect([...instances[1]!.addresses]).toEqual(["10.0.0.1", "10.0.0.2"]);
  });

  it("finds workers whose connections are too short for scans", () => {
    const scan = scanOf({
      processes: [
        { pid: 7, service: "poller" },
        { pid: 8, service: "curl" },
      ],
    });
    const identities = new ServiceIdentities("vm-1");
    const namer = createServiceNamer({ scan, config: defaultDiscovery, managed: managedOf([]), traffic: noTrafficNames, identities });
    const options = { scan, namer, config: defaultDiscovery, managed: managedOf([]), callers: new Set([7, 8, 9]) };
    expect(buildInstances(options).instances.map(text)).toEqual(["poller null:null null pid 7 connection_tracking"]);
  });

  it("applies the methods of the config in their order", () => {
    const listeners = [socketOf("0.0.0.0:80", null, null, { owners: [5] })];
    const connections = [
      socketOf("10.0.0.1:40003", "10.0.0.9:443", "client", { owners: [5] }),
      socketOf("10.0.0.1:40000", "10.0.0.9:5432", "client", { owners: [7] }),
    ];
    const test = {
      processes: [
        { pid: 5, service: "web" },
        { pid: 7, service: "worker" },
      ],
      listeners,
      connections,
    };
    const methods = (names: AgentDiscoveryConfig["methods"]): string[] => build(test, { config: { methods: names } }).instances.map(text);
    expect(methods(["connection_tracking", "listening_sockets"])[0]).toBe("web tcp:80 0.0.0.0 pid 5 connection_tracking");
    expect(methods(["listening_sockets"])).toHaveLength(1);
    expect(methods(["connection_tracking"])).toEqual(["worker null:null null pid 7 connection_tracking"]);
    expect(build(test, { config: { enabled: false } }).instances).toEqual([]);
  });

  it("reports registered services with discovery disabled and without a listener", () => {
    const managed = managedOf([
      { name: "web", port: 80 },
      { name: "db", port: 5432 },
    ]);
    const test = {
      processes: [{ pid: 5, service: "x" }],
      listeners: [socketOf("0.0.0.0:80", null, null, { owners: [5] }), socketOf("0.0.0.0:81", null, null, { owners: [5] })],
    };
    const { instances } = build(test, { config: { enabled: false }, managed });
    expect(instances.map(text)).toEqual(["web tcp:80 0.0.0.0 pid 5 manual", "db tcp:5432 null pid null manual"]);
    expect(instances.every(({ isManaged }) => isManaged)).toBe(true);
  });

  it("skips a process that only keeps a socket open for another", () => {
    const listeners = [socketOf("0.0.0.0:22", null, null, { owners: [1, 5] }), socketOf("0.0.0.0:631", null, null, { owners: [1] })];
    const { instances } = build({
      processes: [
        { pid: 1, service: "systemd" },
        { pid: 5, service: "sshd" },
      ],
      listeners,
    });
    expect(instances.map(text)).toEqual(["sshd tcp:22 0.0.0.0 pid 5 listening_socket", "systemd tcp:631 0.0.0.0 pid 1 listening_socket"]);
  });

  it("treats a new UDP socket on an ephemeral port as a client's", () => {
    const udp = (local: string, sinceScan: number) => socketOf(local, null, null, { protocol: "udp", sinceScan, owners: [5] });
    const listeners = [udp("0.0.0.0:53", 4), udp("0.0.0.0:40000", 4), udp("0.0.0.0:40001", 3)];
    const { instances } = build({ processes: [{ pid: 5, service: "dns" }], listeners, more: { number: 4 } });
    expect(instances.map(({ port }) => port)).toEqual([53, 40001]);
  });

  it("reports no addresses when disabled, and bounds instances", () => {
    const listeners = [1, 2, 3].map((port) => socketOf(`0.0.0.0:${port}`, null, null, { owners: [5] }));
    const test = { processes: [{ pid: 5, service: "web" }], listeners };
    const { instances, cut } = build(test, {
      config: { network: { ...defaultDiscovery.network, reportServiceIps: false } },
      maxInstances: 2,
    });
    expect([instances.length, cut, instances[0]!.addresses.size]).toEqual([2, 1, 0]);
  });
});

describe("instanceRow()", () => {
  it("fills every column", () => {
    const health = { state: "unhealthy", detail: "connection refused", checkedAt: null } as const;
    const managed = managedOf([{ name: "web", port: 80 }], health);
    const processes = [{ pid: 5, start: 250, service: "web", build: "abc", containerId: "0123456789ab" }];
    const { instances, scan } = build({ processes, listeners: [socketOf("0.0.0.0:80", null, null, { owners: [5] })] }, { managed });
    const row = instanceRow(instances[0]!, scan, managed, { at: 9, mono_ms: 8 }, 1_000, 100);
    expect(Object.keys(row).sort()).toEqual([...Object.keys(serviceInstance.columns), "at", "mono_ms"].sort());
    expect(row).toMatchObject({
      at: 9,
      mono_ms: 8,
      service: "web",
      named_by: "manual",
      confidence: 1,
      method: "manual",
      pid: 5,
      start_ticks: 250,
      started: 3_500_000,
      build: "abc",
      build_kind: "build-id",
      user_id: 33,
      user_name: "www",
      container_id: "0123456789ab",
      addresses: '["10.0.0.1"]',
      managed: true,
      health: "unhealthy",
      health_detail: "connection refused",
    });
  });

  it("has nulls for unknown values", () => {
    const { instances, scan, managed } = build({ listeners: [socketOf("127.0.0.1:80", null, null, { networkNamespace: 0 })] });
    expect(instanceRow(instances[0]!, scan, managed, { at: 9, mono_ms: 8 }, 1_000, 100)).toMatchObject({
      pid: null,
      started: null,
      netns: null,
      addresses: null,
      user_id: 7,
      health: null,
      managed: false,
    });
  });
});
