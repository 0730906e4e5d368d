import { describe, expect, it } from "vitest";
import type { ProcessFacts } from "../processes/process-facts.ts";
import { clusterOwners } from "./cluster-owners.ts";

interface Worker {
  pid: number;
  app: string;
  ports?: readonly number[] | null;
}

const factsOf = (pid: number, name: string, id: string, clusterPorts: readonly number[] | null, exe = "/usr/bin/node"): ProcessFacts =>
  ({ entry: { pid, name }, exe, origin: { id }, clusterPorts, commandLine: null }) as unknown as ProcessFacts;

function ownersOf(parent: string, workers: readonly Worker[], accepted: readonly number[] = [], exe?: string): readonly number[] {
  const facts = new Map(workers.map(({ pid, app, ports = [] }) => [pid, factsOf(pid, "node", app, ports)]));
  facts.set(1, factsOf(1, parent, "parent", null, exe));
  return clusterOwners(1, 80, {
    factsOf: (pid) => facts.get(pid) ?? null,
    childrenOf: () => workers,
    acceptedAt: () => new Set(accepted),
  });
}

describe("clusterOwners()", () => {
  it("adds the workers of a program that forks itself", () => {
    expect(
      ownersOf("node", [
        { pid: 2, app: "a" },
        { pid: 3, app: "a" },
        { pid: 4, app: "a", ports: null },
      ]),
    ).toEqual([1, 2, 3]);
  });

  it("returns PM2's workers instead of PM2", () => {
    expect(
      ownersOf("PM2 v5.3.0: God", [
        { pid: 2, app: "a" },
        { pid: 3, app: "a" },
      ]),
    ).toEqual([2, 3]);
  });

  it("distinguishes PM2's apps by their connections, then by their variables", () => {
    const workers = [
      { pid: 2, app: "a", ports: [80] },
      { pid: 3, app: "b" },
      { pid: 4, app: "b" },
    ];
    expect(ownersOf("PM2 v5.3.0: God", workers, [4])).toEqual([3, 4]);
    expect(ownersOf("PM2 v5.3.0: God", workers)).toEqual([2]);
    expect(ownersOf("PM2 v5.3.0: God", workers.slice(1).concat({ pid: 5, app: "c", ports: [] }))).toEqual([1]);
  });

  it("ignores other programs", () => {
    expect(ownersOf("nginx", [{ pid: 2, app: "a" }], [], "/usr/sbin/nginx")).toEqual([1]);
    expect(ownersOf("node", [{ pid: 2, app: "a", ports: null }])).toEqual([1]);
  });
});
