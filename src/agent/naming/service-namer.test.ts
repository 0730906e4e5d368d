import { describe, expect, it } from "vitest";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import { defaultDiscovery, managedOf, scanOf, socketOf, type TestScan } from "../discovery/discovery-scan.fixture.ts";
import type { ManagedServices } from "../managed/managed-services.ts";
import { createServiceNamer, noTrafficNames, type ServiceNamer, type TrafficNames } from "./service-namer.ts";

interface Said {
  config?: Partial<AgentDiscoveryConfig>;
  managed?: ManagedServices;
  traffic?: TrafficNames;
}

function namerOf(scan: TestScan, { config = {}, managed = managedOf([]), traffic = noTrafficNames }: Said = {}): ServiceNamer {
  return createServiceNamer({ scan: scanOf(scan), config: { ...defaultDiscovery, ...config }, managed, traffic });
}
const mapped = (portMapping: Record<string, string>): Said => ({ config: { names: { ...defaultDiscovery.names, portMapping } } });
const node = { exe: "/usr/bin/node" };
const nginx = { exe: "/usr/sbin/nginx", script: null };

describe("createServiceNamer()", () => {
  it("prefers the user's name for a port, then the config's, then the process's", () => {
    const listener = socketOf("0.0.0.0:8080", null, null, { owners: [5] });
    const scan = { processes: [{ pid: 5, service: "found" }], listeners: [listener] };
    expect(namerOf(scan).atListener(listener, 5)).toMatchObject({ service: "found", managed: undefined });
    expect(namerOf(scan, mapped({ 8080: "api" })).atListener(listener, 5)).toMatchObject({ service: "api", namedBy: "config" });
    const managed = managedOf([{ name: "registered", port: 8080 }]);
    expect(namerOf(scan, { ...mapped({ 8080: "api" }), managed }).atListener(listener, 5)).toMatchObject({
      service: "registered",
      namedBy: "manual",
      confidence: 1,
      managed: { port: 8080 },
    });
    expect(namerOf(scan, mapped({ 8080: "api" })).atListener(listener, null)).toMatchObject({ service: "api" });
    expect(namerOf(scan).atListener(listener, null)).toMatchObject({ service: "unknown-8080", confidence: 0 });
  });

  it("applies a registered port to the host, and to a container only when the host does not use the port", () => {
    const own = socketOf("0.0.0.0:80", null, null, { owners: [5] });
    const other = socketOf("0.0.0.0:80", null, null, { owners: [6], networkNamespace: 200 });
    const processes = [
      { pid: 5, service: "a" },
      { pid: 6, service: "b" },
    ];
    const managed = managedOf([{ name: "web", port: 80 }]);
    const both = namerOf({ processes, listeners: [own, other] }, { managed });
    expect([both.atListener(own, 5).service, both.atListener(other, 6).service]).toEqual(["web", "b"]);
    expect(namerOf({ processes, listeners: [other] }, { managed }).atListener(other, 6).service).toBe("web");
    const udp = socketOf("0.0.0.0:80", null, null, { owners: [5], protocol: "udp" });
    expect(namerOf({ processes, listeners: [udp] }, { managed }).atListener(udp, 5).service).toBe("a");
  });

  it("uses names from traffic when no better source is known, unless disabled", () => {
    const listener = socketOf("0.0.0.0:80", null, null, { owners: [5] });
    const traffic: TrafficNames = {
      nameOf: ({ pid, startTicks, port }, sources) => (pid === 5 && startTicks === 5 && port === 80 ? sources.join("-") : undefined),
    };
    const scan = { processes: [{ pid: 5, service: "script" }], listeners: [listener] };
    expect(namerOf(scan, { traffic, config: { trafficSources: ["http_host"] } }).atListener(listener, 5)).toMatchObject({
      service: "http_host",
      namedBy: "traffic",
    });
    expect(namerOf(scan, { traffic, config: { methods: ["listening_sockets"] } }).atListener(listener, 5).service).toBe("script");
    const sure = { processes: [{ pid: 5, service: "label", confidence: 0.95 }], listeners: [listener] };
    expect(namerOf(sure, { traffic }).atListener(listener, 5).service).toBe("label");
  });

  it("names workers after the program that started them", () => {
    const processes = [
      { pid: 10, service: "nginx", ...nginx },
      { pid: 11, parent: 10, service: "worker", ...nginx },
      { pid: 12, parent: 11, service: "helper", ...nginx },
      { pid: 13, parent: 10, service: "other", exe: "/usr/bin/php" },
      { pid: 14, parent: 10, service: "contained", ...nginx, containerId: "abc" },
      { pid: 15, parent: 10, service: "unit", ...nginx, confidence: 0.85 },
    ];
    const namer = namerOf({ processes });
    expect([11, 12, 13, 14, 15].map((pid) => namer.ofProcess(pid)?.service)).toEqual(["nginx", "nginx", "other", "contained", "unit"]);
  });

  it("separates scripts of one interpreter, unless the child serves its parent's port", () => {
    const processes = [
      { pid: 10, service: "api", script: "api", ...node },
      { pid: 11, parent: 10, service: "api", script: "api", ...node },
      { pid: 12, parent: 10, service: "mailer", script: "mailer", ...node },
      { pid: 13, parent: 10, service: "cluster-worker", script: "cluster-worker", ...node },
      { pid: 14, parent: 10, service: "holder", script: "holder", ...node },
    ];
    const listener = socketOf("0.0.0.0:80", null, null, { owners: [10, 14] });
    const served = socketOf("10.0.0.1:80", "10.0.0.9:5000", "server", { owners: [13] });
    const namer = namerOf({ processes, listeners: [listener], connections: [served] });
    expect([11, 12, 13, 14].map((pid) => namer.ofProcess(pid)?.service)).toEqual(["api", "mailer", "api", "api"]);
  });

  it("does not name services after their process manager", () => {
    const processes = [
      { pid: 10, service: "pm2", script: "pm2", ...node },
      { pid: 11, parent: 10, service: "shop", script: "shop", ...node },
    ];
    const listener = socketOf("0.0.0.0:80", null, null, { owners: [10, 11] });
    expect(namerOf({ processes, listeners: [listener] }).ofProcess(11)?.service).toBe("shop");
  });

  it("names a process after its only user-named port", () => {
    const [first, second] = [socketOf("0.0.0.0:80", null, null, { owners: [5] }), socketOf("0.0.0.0:81", null, null, { owners: [5] })];
    const scan = { processes: [{ pid: 5, service: "found" }], listeners: [first, second] };
    expect(namerOf(scan, mapped({ 80: "web" })).ofProcess(5)?.service).toBe("web");
    expect(namerOf(scan, mapped({ 80: "web" })).atListener(second, 5).service).toBe("found");
    expect(namerOf(scan, mapped({ 80: "web", 81: "admin" })).ofProcess(5)?.service).toBe("found");
    expect(namerOf({}).ofProcess(99)).toBeNull();
  });

  it("names a server by its listener for backends, and by itself when started by inetd", () => {
    const processes = [
      { pid: 10, service: "postgres", exe: "/usr/bin/postgres" },
      { pid: 11, parent: 10, service: "postgres", exe: "/usr/bin/postgres" },
      { pid: 20, service: "systemd", exe: "/sbin/init" },
      { pid: 21, parent: 20, service: "echo", exe: "/usr/bin/echod" },
    ];
    const listeners = [socketOf("0.0.0.0:5432", null, null, { owners: [10] }), socketOf("0.0.0.0:7", null, null, { owners: [20] })];
    const namer = namerOf({ processes, listeners }, mapped({ 5432: "orders-db" }));
    const end = (port: number) => socketOf(`10.0.0.1:${port}`, "10.0.0.9:5000", "server");
    expect(namer.atServer(end(5432), 11)?.service).toBe("orders-db");
    expect(namer.atServer(end(5432), null)?.service).toBe("orders-db");
    expect(namer.atServer(end(7), 21)?.service).toBe("echo");
    expect(namer.atServer(end(9), 21)?.service).toBe("echo");
    expect(namer.atServer(end(9), null)).toBeNull();
  });

  it("gives a name learned from traffic to a master and all its workers", () => {
    const listener = socketOf("0.0.0.0:80", null, null, { owners: [5, 6] });
    const processes = [
      { pid: 5, service: "nginx", confidence: 0.85, ...nginx },
      { pid: 6, service: "nginx", confidence: 0.85, parent: 5, ...nginx },
    ];
    const traffic: TrafficNames = {
      nameOf: ({ pid, startTicks, port }) => (pid === 5 && startTicks === 5 && port !== 81 ? "shop.example" : undefined),
    };
    const namer = namerOf({ processes, listeners: [listener] }, { traffic });
    expect([5, 6].map((pid) => namer.atListener(listener, pid).service)).toEqual(["shop.example", "shop.example"]);
    expect([namer.atPort(6, 80)?.service, namer.ofProcess(6)?.service]).toEqual(["shop.example", "shop.example"]);
    expect([namer.headOf(6), namer.headOf(99)]).toEqual([{ pid: 5, startTicks: 5 }, undefined]);
  });
});
