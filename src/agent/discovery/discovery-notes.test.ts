import { describe, expect, it } from "vitest";
import { discoveryNotes } from "./discovery-notes.ts";
import { defaultDiscovery, noLimits } from "./discovery-scan.fixture.ts";

const notes = (limits = {}, more = {}): string[] =>
  discoveryNotes(
    { limits: { ...noLimits, ...limits }, cutInstances: 0, config: defaultDiscovery, kernelProblem: "no kernel", ...more },
    () => "do this",
  );

describe("discoveryNotes()", () => {
  it("reports the blind spot of scans, unless kernel events cover it", () => {
    expect(notes()).toEqual(["Connections that open and close between two scans (30s) are missed: no kernel"]);
    expect(notes({}, { kernelProblem: null })).toEqual([]);
    const scanned = { ...defaultDiscovery, backend: "sock_diag" };
    expect(notes({}, { kernelProblem: null, config: scanned })).toEqual([
      "Connections that open and close between two scans (30s) are missed",
    ]);
    expect(notes({}, { config: { ...defaultDiscovery, methods: ["listening_sockets"] } })).toEqual([]);
  });

  it("reports each gap with its fix", () => {
    const limits = {
      listenersWithoutProcess: 1,
      connectionsWithoutProcess: 20,
      deniedProcesses: 3,
      cut: 4,
      folded: 5,
      unreadNamespaces: 6,
      skippedBuilds: 7,
      withoutCounters: "no netlink",
    };
    expect(notes(limits, { cutInstances: 1, kernelProblem: "eBPF is not there" })).toEqual([
      "1 listening socket has no known process; do this",
      "20 connections have no known process; do this",
      expect.stringMatching(/^3 processes cannot be inspected: .*; do this$/),
      expect.stringMatching(/^6 network namespaces could not be read/),
      expect.stringMatching(/^5 connections above the limit/),
      expect.stringMatching(/^5 sockets, processes or file descriptors/),
      expect.stringMatching(/^7 executables/),
      "Some connections have no byte counts or round-trip times: no netlink",
      expect.stringMatching(/^Connections that open .*: eBPF is not there$/),
    ]);
  });

  it("does not report missing counters when the config selects procfs", () => {
    expect(notes({ withoutCounters: "x" }, { config: { ...defaultDiscovery, backend: "procfs" } })).toHaveLength(1);
  });
});
