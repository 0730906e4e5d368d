import { describe, expect, it } from "vitest";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import { defaultDiscovery, managedOf, scanOf, socketOf, type TestScan } from "../discovery/discovery-scan.fixture.ts";
import type { ManagedServices } from "../managed/managed-services.ts";
import { ServiceIdentities } from "./service-identities.ts";
import { createServiceNamer, noTrafficNames, type ServiceNamer, type TrafficNames } from "./service-namer.ts";

interface Said {
  identities?: ServiceIdentities;
  config?: Partial<AgentDiscoveryConfig>;
  managed?: ManagedServices;
  traffic?: TrafficNames;
}

function namerOf(
  scan: TestScan,
  { config = {}, managed = managedOf([]), traffic = noTrafficNames, identities = new ServiceIdentities("vm-1") }: Said = {},
): ServiceNamer {
  return createServiceNamer({ scan: scanOf(scan), config: { ...defaultDiscovery, ...config }, managed, traffic, identities });
}
const mapped = (portMapping: Record<string, string>): Said => ({ config: { names: { ...defaultDiscovery.names, portMapping } } });
const node = { exe: "/usr/bin/node" };
const nginx = { exe: "/usr/sbin/nginx", script: null };

describe("createServiceNamer()", () => {
  it("prefers the user's name for a port, then the config's, then the process's", () => {
    const listener = socketOf("0.0.0.0:8080", null, null, { owners: [5] });
    const scan = { processes: [{ pid: 5, service: "found" }], listeners: [listener] };
    expect(namerOf(scan).atListener(listener, 5)).toMatchObject({ name: "found", managed: undefined });
    expect(namerOf(scan, mapped({ 8080: "api" })).atListener(listener, 5)).toMatchObject({ name: "api", namedBy: "config" });
    const managed = managedOf([{ name: "registered", port: 8080 }]);
    expect(namerOf(scan, { ...mapped({ 8080: "api" }), managed }).atListener(listener, 5)).toMatchObject({
      name: "registered",
      namedBy: "manual",
      confidence: 1,
      managed: { port: 8080 },
    });
    expect(namerOf(scan, mapped({ 8080: "api" })).atListener(listener, null)).toMatchObject({ name: "api" });
    expect(namerOf(scan).atListener(listener, null)).toMatchObject({ service: "port:vm-1/8080", name: "unknown-8080", confidence: 0 });
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
    expect([both.atListener(own, 5).name, both.atListener(other, 6).name]).toEqual(["web", "b"]);
    expect(namerOf({ processes, listeners: [other] }, { managed }).atListener(other, 6).name).toBe("web");
    const udp = socketOf("0.0.0.0:80", null, null, { owners: [5], protocol: "udp" });
    expect(namerOf({ processes, listeners: [udp] }, { managed }).atListener(udp, 5).name).toBe("a");
  });

  it("names what no process names by its traffic, unless disabled; other names of clients are aliases", () => {
    const listener = socketOf("0.0.0.0:80", null, null, { owners: [5] });
    const traffic: TrafficNames = {
      nameAtPort: (port, sources) => (port === 80 ? sources.join("-") : undefined),
      aliases: () => new Map([["5 5", ["evil-rename.test", "script"]]]),
    };
    const scan = { processes: [{ pid: 5, service: "script", confidence: 0.3 }], listeners: [listener] };
    expect(namerOf(scan, { traffic }).atListener(listener, 5)).toMatchObject({ name: "script", aliases: ["evil-rename.test"] });
    expect(namerOf(scan, { traffic }).ofProcess(5)).toMatchObject({ name: "script", aliases: ["evil-rename.test"] });
    const only = { traffic, config: { trafficSources: ["http_host" as const] } };
    expect(namerOf(scan, only).atListener(listener, null)).toMatchObject({ name: "http_host", namedBy: "traffic" });
    const off = namerOf(scan, { traffic, config: { methods: ["listening_sockets"] } });
    expect(off.atListener(listener, 5).aliases).toEqual([]);
    expect(off.atListener(listener, null).name).toBe("unknown-80");
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
    expect([11, 12, 13, 14, 15].map((pid) => namer.ofProcess(pid)?.name)).toEqual(["nginx", "nginx", "other", "contained", "unit"]);
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
    expect([11, 12, 13, 14].map((pid) => namer.ofProcess(pid)?.name)).toEqual(["api", "mailer", "api", "api"]);
  });

  it("does not name services after their process manager", () => {
    const processes = [
      { pid: 10, service: "pm2", script: "pm2", ...node },
      { pid: 11, parent: 10, service: "shop", script: "shop", ...node },
    ];
    const listener = socketOf("0.0.0.0:80", null, null, { owners: [10, 11] });
    expect(namerOf({ processes, listeners: [listener] }).ofProcess(11)?.name).toBe("shop");
  });

  it("names all ports of a process after its only user-named port, with the process's own name as an alias", () => {
    const [first, second] = [socketOf("0.0.0.0:80", null, null, { owners: [5] }), socketOf("0.0.0.0:81", null, null, { owners: [5] })];
    const scan = { processes: [{ pid: 5, service: "found" }], listeners: [first, second] };
    const namer = namerOf(scan, mapped({ 80: "web" }));
    for (const name of [namer.ofProcess(5), namer.atListener(first, 5), namer.atListener(second, 5)])
      expect(name).toMatchObject({ service: "found", name: "web", namedBy: "config", aliases: ["found"] });
    expect(namerOf({}).ofProcess(99)).toBeNull();
  });

  it("splits a service whose ports have different user-given names", () => {
    const ports = [80, 81, 82].map((port) => socketOf(`0.0.0.0:${port}`, null, null, { owners: [5] }));
    const namer = namerOf({ processes: [{ pid: 5, service: "found" }], listeners: ports }, mapped({ 80: "web", 81: "admin" }));
    expect(ports.map((port) => namer.atListener(port, 5)).map(({ service, name }) => `${service} ${name}`)).toEqual([
      "found:80 web",
      "found:81 admin",
      "found found",
    ]);
    expect(namer.ofProcess(5)).toMatchObject({ service: "found", name: "found" });
  });

  it("names exactly the service at a connected port", () => {
    const [one, other] = [21055, 18432].map((port) => socketOf(`0.0.0.0:${port}`, null, null, { owners: [port] })) as [
      ReturnType<typeof socketOf>,
      ReturnType<typeof socketOf>,
    ];
    const origin = { infrastructure: "postgres", isIdentifiedByPort: true };
    const processes = [21055, 18432].map((pid) => ({ pid, service: "postgres", origin, exe: "/usr/bin/postgres" }));
    const namer = namerOf({ processes, listeners: [one, other] }, { managed: managedOf([{ name: "orders", port: 21055 }]) });
    const [connected, rest] = [namer.atListener(one, 21055), namer.atListener(other, 18432)];
    expect(connected).toMatchObject({ name: "orders", namedBy: "manual", confidence: 1, aliases: ["postgres"], qualifiers: [":21055"] });
    expect(rest).toMatchObject({ name: "postgres", managed: undefined, qualifiers: [":18432"] });
    expect(rest.service).not.toBe(connected.service);
  });

  it("keeps the id of a process that opens a lower port later, but not for the next process with its pid", () => {
    const identities = new ServiceIdentities("vm-1");
    const origin = { infrastructure: "redis", isIdentifiedByPort: true };
    const idAt = (ports: number[], start = 5) => {
      const listeners = ports.map((port) => socketOf(`0.0.0.0:${port}`, null, null, { owners: [5] }));
      return namerOf({ processes: [{ pid: 5, service: "redis", start, origin }], listeners }, { identities }).ofProcess(5)?.service;
    };
    const first = idAt([6379]);
    expect([idAt([6000, 6379]), idAt([6000])]).toEqual([first, first]);
    expect(idAt([40_000, 6000], 6)).toBe(idAt([6000], 7));
    expect(idAt([6000, 6379], 8)).not.toBe(first);
  });

  it("assigns workers of an infrastructure program its id, even if they run another executable", () => {
    const origin = { infrastructure: "sshd", isIdentifiedByPort: true };
    const processes = [
      { pid: 5, service: "sshd", exe: "/usr/sbin/sshd", origin },
      { pid: 6, parent: 5, service: "sshd", exe: "/usr/lib/openssh/sshd-session", origin },
    ];
    const namer = namerOf({ processes, listeners: [socketOf("0.0.0.0:22", null, null, { owners: [5] })] });
    expect(namer.ofProcess(6)?.service).toBe(namer.ofProcess(5)?.service);
  });

  it("uses the group's origin for its processes and the topmost process's for other workers", () => {
    const unit = { id: "unit:shop", kind: "unit" as const };
    const processes = [
      { pid: 5, service: "shop", ...nginx },
      { pid: 6, parent: 5, service: "worker", ...nginx },
      { pid: 7, parent: 5, service: "shop", origin: unit, ...nginx },
    ];
    const namer = namerOf({ processes });
    expect([5, 6, 7].map((pid) => namer.ofProcess(pid)?.service)).toEqual(["shop", "shop", "unit:shop"]);
  });

  it("identifies command-line tools by their name, unless they listen", () => {
    const origin = { id: "program:socat#01" };
    const processes = [5, 6].map((pid) => ({ pid, service: "socat", exe: `/bin/${pid}`, origin }));
    const namer = namerOf({ processes, listeners: [socketOf("0.0.0.0:80", null, null, { owners: [6] })] });
    expect([5, 6].map((pid) => namer.ofProcess(pid)?.service)).toEqual(["socat", "program:socat#01"]);
  });

  it("identifies programs of coral run and their children by the name given there", () => {
    const managed = { ...managedOf([]), launched: () => new Map([[5, "nightly"]]) };
    const processes = [
      { pid: 5, service: "bash", origin: { environment: "staging" } },
      { pid: 6, parent: 5, service: "job" },
    ];
    const namer = namerOf({ processes }, { managed });
    expect(namer.ofProcess(5)).toMatchObject({ service: "run:nightly@staging", name: "nightly", namedBy: "manual" });
    expect(namer.ofProcess(6)).toMatchObject({ service: "run:nightly", name: "nightly" });
  });

  it("keeps the id of a registered service that does not listen any more", () => {
    const identities = new ServiceIdentities("vm-1");
    const managed = managedOf([{ name: "api", port: 80 }]);
    const [entry] = managed.list();
    expect(namerOf({}, { managed, identities }).absent(entry!)).toMatchObject({ service: "port:vm-1/80", name: "api" });
    const listener = socketOf("0.0.0.0:80", null, null, { owners: [5] });
    namerOf({ processes: [{ pid: 5, service: "found" }], listeners: [listener] }, { managed, identities }).atListener(listener, 5);
    expect(namerOf({}, { managed, identities }).absent(entry!)).toMatchObject({ service: "found", name: "api", confidence: 1 });
  });

  it("names a backend by its listener, and a server started by inetd by its own program", () => {
    const processes = [
      { pid: 10, service: "postgres", exe: "/usr/bin/postgres" },
      { pid: 11, parent: 10, service: "postgres", exe: "/usr/bin/postgres" },
      { pid: 20, service: "systemd", exe: "/sbin/init" },
      { pid: 21, parent: 20, service: "echo", exe: "/usr/bin/echod" },
    ];
    const listeners = [socketOf("0.0.0.0:5432", null, null, { owners: [10] }), socketOf("0.0.0.0:7", null, null, { owners: [20] })];
    const namer = namerOf({ processes, listeners }, mapped({ 5432: "orders-db" }));
    const end = (port: number) => socketOf(`10.0.0.1:${port}`, "10.0.0.9:5000", "server");
    expect(namer.atServer(end(5432), 11)?.name).toBe("orders-db");
    expect(namer.atServer(end(5432), null)?.name).toBe("orders-db");
    expect(namer.atServer(end(7), 21)?.name).toBe("echo");
    expect(namer.atServer(end(9), 21)?.name).toBe("echo");
    expect(namer.atServer(end(9), null)).toBeNull();
  });

  it("distinguishes servers of one program by the port of their first requests, before a scan finds their listeners", () => {
    const origin = { infrastructure: "redis", isIdentifiedByPort: true };
    const processes = [6, 7].map((pid) => ({ pid, service: "redis", origin }));
    const early = namerOf({ processes, listeners: [] });
    const listeners = [6, 7].map((pid) => socketOf(`127.0.0.1:${6_373 + pid}`, null, null, { owners: [pid] }));
    const later = namerOf({ processes, listeners });
    const services = [6, 7].map((pid) => early.atPort(pid, 6_373 + pid)?.service);
    expect(services).toEqual([6, 7].map((pid) => later.ofProcess(pid)?.service));
    expect(new Set(services).size).toBe(2);
    // Once its port is known, requests to another port do not create another service.
    const identities = new ServiceIdentities("vm-1");
    const known = namerOf({ processes, listeners }, { identities }).ofProcess(6)?.service;
    expect(namerOf({ processes, listeners: [] }, { identities }).atPort(6, 9)?.service).toBe(known);
  });

  it("applies the aliases of a master to all its workers", () => {
    const listener = socketOf("0.0.0.0:80", null, null, { owners: [5, 6] });
    const processes = [
      { pid: 5, service: "nginx", ...nginx },
      { pid: 6, service: "nginx", parent: 5, ...nginx },
    ];
    const traffic: TrafficNames = { ...noTrafficNames, aliases: () => new Map([["5 5", ["shop.example"]]]) };
    const namer = namerOf({ processes, listeners: [listener] }, { traffic });
    expect([5, 6].map((pid) => namer.atListener(listener, pid).aliases)).toEqual([["shop.example"], ["shop.example"]]);
    expect([namer.atPort(6, 80)?.aliases, namer.ofProcess(6)?.aliases]).toEqual([["shop.example"], ["shop.example"]]);
  });
});
