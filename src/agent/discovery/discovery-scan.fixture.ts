/** A scan from given processes, listeners and connections. */

import type { AgentDiscoveryConfig } from "../../config/index.ts";
import type { DiscoveryLimits, DiscoveryScan, ExecutableFile, ProcessFacts, ProcessOrigin, TrackedSocket } from "../../host/index.ts";
import type { ManagedService, ManagedServices, ServiceHealth } from "../managed/managed-services.ts";

export const hostNamespace = 100;

export interface TestProcess {
  pid: number;
  service?: string;
  confidence?: number;
  namedBy?: NonNullable<ProcessFacts["name"]>["namedBy"];
  parent?: number;
  start?: number;
  exe?: string | null;
  script?: string | null;
  build?: string | null;
  /** The file on disk now; the running file by default. */
  disk?: { key: string; build: string | null } | null;
  containerId?: string | null;
  networkNamespace?: number;
  /** What differs from a program whose id is its name, so that rows are easy to read. */
  origin?: Partial<ProcessOrigin>;
}

/** `10.0.0.1:80` */
type End = string;

function endOf(text: End): { address: string; port: number } {
  const at = text.lastIndexOf(":");
  return { address: text.slice(0, at), port: Number(text.slice(at + 1)) };
}

let lastInode = 1_000;

export interface SocketMore extends Partial<TrackedSocket> {
  owners?: number[];
}

/** A listener without a remote end, a connection with one. */
export function socketOf(
  local: End,
  remote: End | null,
  role: TrackedSocket["role"],
  more: SocketMore = {},
): TrackedSocket & { owners: number[] } {
  const here = endOf(local);
  const there = endOf(remote ?? "0.0.0.0:0");
  return {
    inode: ++lastInode,
    protocol: "tcp",
    networkNamespace: hostNamespace,
    localAddress: here.address,
    localPort: here.port,
    remoteAddress: there.address,
    remotePort: there.port,
    userId: 7,
    sinceScan: 1,
    lastScan: 1,
    state: remote === null ? 10 : 1,
    role,
    bytesSent: null,
    bytesReceived: null,
    rttUs: null,
    retransmits: null,
    searches: 0,
    nextSearchScan: 0,
    owners: [],
    ...more,
  };
}

export function factsOf(process: TestProcess): ProcessFacts {
  const { pid, service = "app", confidence = 0.8, namedBy = "script", build = null, exe = "/usr/bin/node" } = process;
  return {
    entry: {
      pid,
      startTicks: process.start ?? pid,
      execMark: 1,
      parentPid: process.parent ?? 1,
      name: service,
      networkNamespace: process.networkNamespace ?? hostNamespace,
      sinceScan: 1,
    },
    name: service === "" ? null : { name: service, namedBy, confidence },
    origin: originOf(service, process.origin),
    exe,
    isExeGone: false,
    script: process.script ?? null,
    clusterPorts: null,
    commandLine: `node ${service}.js`,
    environment: null,
    userId: 33,
    userName: "www",
    cgroup: "/",
    containerId: process.containerId ?? null,
    containerName: null,
    containerRuntime: null,
    unit: null,
    program: null,
    file: fileOf(`${exe}`, build),
  };
}

function originOf(service: string, more: Partial<ProcessOrigin> = {}): ProcessOrigin {
  const id = service === "" ? "program:x" : service;
  return {
    id,
    text: `node ${service}.js`,
    qualifiers: [],
    kind: "program",
    environment: null,
    infrastructure: null,
    isIdentifiedByPort: false,
    ...more,
  };
}

function fileOf(key: string, build: string | null): ExecutableFile {
  return { key: `${key} ${build}`, build: build === null ? null : { id: build, kind: "build-id" } };
}

export const noLimits: DiscoveryLimits = {
  deniedProcesses: 0,
  listenersWithoutProcess: 0,
  connectionsWithoutProcess: 0,
  cut: 0,
  folded: 0,
  unreadNamespaces: 0,
  skippedBuilds: 0,
  withoutCounters: null,
};

export interface TestScan {
  processes?: TestProcess[];
  listeners?: (TrackedSocket & { owners: number[] })[];
  connections?: (TrackedSocket & { owners: number[] })[];
  more?: Partial<DiscoveryScan>;
}

/** Connections count as opened in this scan unless `more.opened` is given. */
export function scanOf({ processes = [], listeners = [], connections = [], more = {} }: TestScan): DiscoveryScan {
  const facts = new Map(processes.map((process) => [process.pid, factsOf(process)]));
  const disks = new Map(processes.map(({ pid, disk }) => [pid, disk]));
  const owners = new Map<TrackedSocket, number[]>([...listeners, ...connections].map((socket) => [socket, socket.owners]));
  return {
    number: 1,
    opened: connections,
    closed: [],
    folded: [],
    cut: 0,
    listeners: new Map(listeners.map((socket) => [socket.inode, socket])),
    connections: new Map(connections.map((socket) => [socket.inode, socket])),
    ownersOf: (socket) => owners.get(socket) ?? [],
    listenersOf: (end) =>
      listeners.filter(
        (one) => one.localPort === end.localPort && one.protocol === end.protocol && one.networkNamespace === end.networkNamespace,
      ),
    processOf: (pid) => facts.get(pid)?.entry,
    factsOf: (pid) => facts.get(pid) ?? null,
    buildOf: (process) => process.file?.build ?? null,
    fileOnDisk: (process) => {
      const disk = disks.get(process.entry.pid);
      return disk === undefined
        ? process.file
        : disk && { key: disk.key, build: disk.build === null ? null : { id: disk.build, kind: "sha256" } };
    },
    addressesIn: () => ["10.0.0.1"],
    hostNamespace,
    isSeenNamespace: (inode) => inode === hostNamespace || processes.some(({ networkNamespace }) => networkNamespace === inode),
    isEphemeral: (port) => port >= 32_768 && port <= 60_999,
    uptimeS: 1_000,
    limits: noLimits,
    ...more,
  };
}

export const defaultDiscovery: AgentDiscoveryConfig = {
  enabled: true,
  methods: ["listening_sockets", "connection_tracking", "traffic_inspection"],
  scanIntervalMs: 30_000,
  protocols: ["tcp", "udp"],
  backend: "auto",
  trafficSources: ["http_host", "grpc_service"],
  names: { portMapping: {}, patterns: [], kubernetesLabel: "app" },
  network: { reportServiceIps: true, resolveExternalIps: true, detectCloudProviders: true },
  redaction: { names: [], patterns: [] },
  reportIntervalMs: 30_000,
  batchSize: 1_000,
};

export function managedOf(services: (Partial<ManagedService> & { name: string; port: number })[], health?: ServiceHealth): ManagedServices {
  const list = services.map((service) => ({ connectedAt: "2026-01-01T00:00:00.000Z", ...service }));
  return { list: () => list, byPort: (port) => list.find((one) => one.port === port), healthOf: () => health };
}
