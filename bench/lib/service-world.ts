/** A simulated application on several hosts, with the ground truth: the service and build of each process, and the calls. */

import { createHash } from "node:crypto";
import { basename } from "node:path";
import { type OriginFacts, originAtPort, originOfProcess } from "../../src/host/naming/service-origin.ts";
import type { ServiceOrigin } from "../../src/model/service-identity.ts";

/** One service as its owner knows it. */
export interface TrueService {
  key: number;
  /** Name of its program. Several services may share it. */
  name: string;
  /** Given by `coral connect`; null: none. */
  givenName: string | null;
  port: number;
  build: number;
  /** Release directories and image tags change with each build. */
  facts: (build: number) => Partial<OriginFacts>;
  callees: number[];
}

/** A process of a service, with what a scan would see of it. */
export interface SimulatedProcess {
  service: TrueService;
  host: number;
  pid: number;
  startTicks: number;
  startedMs: number;
  build: number;
}

/** A seeded generator: every run simulates the same day. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const teams = ["billing", "images", "search", "mail", "orders", "stock", "users", "reports", "fraud", "geo"];

/** One of six kinds in turn: a unit, a script in release directories, a program with a shared name, infrastructure on its own port, a container, a native program. */
export function trueServices(count: number, random: () => number): TrueService[] {
  return Array.from({ length: count }, (_, key) => ({
    key,
    ...programOf(key),
    givenName: null,
    port: 10_000 + key,
    build: 1,
    callees: Array.from({ length: 1 + Math.floor(random() * 3) }, () => Math.floor(random() * count)).filter((callee) => callee !== key),
  }));
}

function programOf(key: number): Pick<TrueService, "name" | "facts"> {
  const team = `${teams[key % teams.length]}-${Math.floor(key / 60)}`;
  const run = (command: string, more: Partial<OriginFacts> = {}): Partial<OriginFacts> => ({
    exe: command.split(" ")[0] ?? null,
    arguments: command.split(" "),
    ...more,
  });
  switch (key % 6) {
    case 0:
      return { name: `unit-${key}`, facts: () => run("/usr/bin/daemon", { unit: `unit-${key}`, workingDirectory: "/" }) };
    case 1: {
      const home = `/srv/app-${key}/releases`;
      return {
        name: `app-${key}`,
        facts: (build) =>
          run(`/usr/bin/node ${home}/202601${10 + build}120000/server.js`, { workingDirectory: `${home}/202601${10 + build}120000` }),
      };
    }
    case 2:
      return { name: "worker", facts: () => run("/usr/bin/python3.11 worker.py", { workingDirectory: `/srv/${team}/${key}` }) };
    case 3: {
      const program = ["postgres", "redis-server", "nginx"][Math.floor(key / 6) % 3] ?? "nginx";
      return {
        name: program === "redis-server" ? "redis" : program,
        facts: () => run(`/usr/sbin/${program}`, { workingDirectory: "/", processName: program }),
      };
    }
    case 4: {
      const container = { id: String(key), runtime: "docker" as const, name: `shop-c${key}-1`, service: `c${key}`, project: "shop" };
      return {
        name: `c${key}`,
        facts: () =>
          run("/app/server", {
            container: { ...container, image: `registry.local/c${key}`, pod: null, labels: {} },
            workingDirectory: "/app",
          }),
      };
    }
    default:
      return { name: `tool-${key}`, facts: (build) => run(`/opt/tool-${key}/v1.${build}.0/tool-${key}`, { workingDirectory: "/" }) };
  }
}

/** The origin as an agent derives it from the process. */
export function originOf({ service, build }: Pick<SimulatedProcess, "service" | "build">): ServiceOrigin {
  const facts: OriginFacts = {
    exe: null,
    processName: "",
    arguments: [],
    workingDirectory: null,
    environment: new Map(),
    unit: null,
    container: null,
    kubernetes: null,
    redact: (text) => text,
    ...service.facts(build),
  };
  return originAtPort(originOfProcess({ ...facts, processName: facts.processName || basename(facts.exe ?? "") }), service.port);
}

export function buildText({ key }: TrueService, build: number): string {
  return createHash("sha256").update(`${key} ${build}`).digest("hex").slice(0, 40);
}
