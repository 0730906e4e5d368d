import { describe, expect, it } from "vitest";
import type { Clock } from "../../base/clock.ts";
import { createLogger, type LogRecord } from "../../base/log.ts";
import type { DetectedRuntime } from "../../host/index.ts";
import { capabilityNames } from "../../model/runtime-facts.ts";
import { RuntimeWatch } from "../link/runtime-watch.ts";
import { DebouncedValue } from "./debounced-value.ts";
import { ownerIn } from "./pod-owner.ts";
import { type CapabilitySources, refusedCommands, runtimeCapabilities } from "./runtime-capabilities.ts";
import { RuntimeReporter } from "./runtime-reporter.ts";

const signal = new AbortController().signal;

class HandClock implements Clock {
  nowMs = 0;
  wallMs(): number {
    return 1_700_000_000_000 + this.nowMs;
  }
  monotonicMs(): number {
    return this.nowMs;
  }
}

const sidecar = (sidecarMode: "cri" | "passive", containers: string[] = []): DetectedRuntime => ({
  platform: { os: "linux", arch: "amd64", osVersion: "Ubuntu 22.04", kernel: "6.5.0" },
  runtimeType: "k8s-sidecar",
  sidecarMode,
  containerRuntime:
    sidecarMode === "cri" ? { socketPath: "/run/containerd/containerd.sock", type: "containerd", version: "1.7.0", api: "cri" } : null,
  visibility: { allPids: false, allContainers: false, podScope: true, containers, namespace: "pod", moreContainers: 0 },
  evidence: ["service account of a pod"],
  isOverridden: false,
  entersNamespaces: true,
  problems: [],
});

async function open(clock: Clock, first: DetectedRuntime) {
  const records: LogRecord[] = [];
  const world = { next: first, looks: 0, logsDetection: true, records, refused: {} as NonNullable<CapabilitySources["refused"]> };
  const reporter = await RuntimeReporter.open(
    {
      detect: () => {
        world.looks++;
        return Promise.resolve(world.next);
      },
      capabilities: (found) =>
        runtimeCapabilities({ ...found, kernel: [], capture: { available: true, reason: "", fix: "" }, refused: world.refused }),
      version: "0.1.0",
      logsDetection: () => world.logsDetection,
      clock,
      log: createLogger("runtime", "info", (record) => records.push(record)),
    },
    signal,
  );
  return { reporter, world };
}

describe("RuntimeReporter", () => {
  it("returns the cached context, and lists the changes after a refresh", async () => {
    const clock = new HandClock();
    const { reporter, world } = await open(clock, sidecar("passive"));
    expect(reporter.current()).toMatchObject({ sidecarMode: "passive", version: "0.1.0", detectedAt: "2023-11-14T22:13:20.000Z" });
    expect(world.looks).toBe(1);
    clock.nowMs = 60_000;
    const before = reporter.fingerprint();
    expect((await reporter.refresh(signal)).changes).toEqual([]);
    expect(reporter.fingerprint()).toBe(before);
    expect(reporter.current().detectedAt).toBe("2023-11-14T22:14:20.000Z");
    world.next = sidecar("cri", ["app"]);
    expect((await reporter.refresh(signal)).changes).toEqual([
      "sidecar mode passive → cri",
      "container runtime none → containerd 1.7.0 at /run/containerd/containerd.sock",
      "containers none → app",
      "exec no → yes",
      "shell no → yes",
    ]);
    expect(reporter.fingerprint()).not.toBe(before);
  });

  it("compares with a given context, as after a config reload", async () => {
    const { reporter, world } = await open(new HandClock(), sidecar("cri"));
    const before = reporter.current();
    world.refused = { shell: { reason: "denied", fix: "" } };
    expect((await reporter.refresh(signal)).changes).toEqual([]);
    expect((await reporter.refresh(signal, before)).changes).toEqual(["shell yes → no"]);
    expect(world.records.at(-1)?.message).toContain("Runtime context changed (shell yes → no)");
  });

  it("shares one detection between concurrent calls", async () => {
    const { reporter, world } = await open(new HandClock(), sidecar("cri"));
    await Promise.all([reporter.refresh(signal), reporter.refresh(signal), reporter.refresh(signal)]);
    expect(world.looks).toBe(2);
  });

  it("logs the detected context, unless disabled", async () => {
    const { reporter, world } = await open(new HandClock(), sidecar("cri", ["app", "nginx"]));
    expect(world.records).toMatchObject([{ message: "Runtime context: Kubernetes Sidecar, CRI" }]);
    expect(JSON.stringify(world.records)).toContain("connect=true, exec=true, shell=true, run=false");
    world.logsDetection = false;
    world.next = sidecar("passive");
    await reporter.refresh(signal);
    expect(world.records).toHaveLength(1);
  });
});

describe("RuntimeWatch", () => {
  it("reports a change at once, and again after the colony was unreachable", async () => {
    const clock = new HandClock();
    const { reporter, world } = await open(clock, sidecar("passive"));
    const reasons: string[] = [];
    let isUp = false;
    const reported = new DebouncedValue(10_000);
    const link = {
      reregister: (reason: string) => {
        reasons.push(reason);
        return Promise.resolve(isUp);
      },
    };
    reported.markReported(reporter.fingerprint());
    const description = { reported, fingerprint: () => reporter.fingerprint() };
    const watch = new RuntimeWatch({ reporter, link, description, clock, log: createLogger("x", "error", () => undefined) });
    expect(await watch.refresh("refresh", signal)).toMatchObject({ changes: [], isTold: true });
    expect(reasons).toEqual([]);
    world.next = sidecar("cri");
    expect(await watch.refresh("requested", signal)).toMatchObject({ isTold: false });
    expect(reasons).toEqual(["requested"]);
    await watch.reportWhenDue(signal);
    clock.nowMs += 10_000;
    isUp = true;
    await watch.reportWhenDue(signal);
    await watch.reportWhenDue(signal);
    expect(reasons).toEqual(["requested", "capabilities"]);
  });
});

type Rule = Parameters<typeof refusedCommands>[0]["rules"][number];

function rule(change: Partial<Rule>): Rule {
  const all = { program: [], args: [], user: [], target: [], environment: [], kind: [] };
  return { name: "test", action: "deny", ...all, runAs: undefined, ...change };
}

describe("runtimeCapabilities()", () => {
  const kernel = [
    { name: "ebpf", available: false, reason: "CAP_BPF is missing", fix: "run it as root" },
    { name: "profile", available: true, reason: "", fix: "" },
  ];
  const capture = { available: false, reason: "traffic.enabled is false", fix: "set it to true" };

  it("lists all capabilities, each missing one with its reason", () => {
    const facts = runtimeCapabilities({ runtimeType: "native", sidecarMode: "", kernel, capture });
    expect(facts.map(({ name }) => name)).toEqual([...capabilityNames]);
    expect(facts.filter(({ available }) => !available)).toEqual([
      kernel[0],
      { name: "debug", available: false, reason: "kernel support was not probed", fix: "Run coral doctor on this host" },
      { name: "capture", ...capture },
    ]);
    for (const { available, reason } of facts) expect(available).toBe(reason === "");
  });

  it("denies commands in a pod whose containers can be reached neither by namespace nor by CRI", () => {
    const can = (change: object): string =>
      runtimeCapabilities({ runtimeType: "k8s-sidecar", sidecarMode: "shared-ns", kernel, capture, entersNamespaces: false, ...change })
        .filter(({ name, available }) => available && (name === "exec" || name === "shell"))
        .map(({ name }) => name)
        .join(" ");
    expect(can({})).toBe("");
    expect(can({ entersNamespaces: true })).toBe("exec shell");
    expect(can({ sidecarMode: "cri", hasContainerRuntime: true })).toBe("exec shell");
    expect(can({ runtimeType: "k8s-daemonset", sidecarMode: "" })).toBe("");
    expect(can({ runtimeType: "native", sidecarMode: "" })).toBe("exec shell");
  });

  it("denies kinds of commands that the policy can never allow", () => {
    expect(Object.keys(refusedCommands({ profile: "diagnostics", rules: [] }))).toEqual(["shell", "run"]);
    expect(refusedCommands({ profile: "full", rules: [] })).toEqual({});
    const off = refusedCommands({ profile: "off", rules: [rule({ action: "allow" })] });
    expect(Object.keys(off)).toEqual(["exec", "shell", "run"]);
    const shell = runtimeCapabilities({ runtimeType: "native", sidecarMode: "", kernel, capture, refused: off }).find(
      ({ name }) => name === "shell",
    );
    expect(shell).toMatchObject({ available: false, reason: "commands are disabled by exec.profile: off" });
  });

  it.each<[string, "diagnostics" | "full", Partial<Rule>[], string]>([
    ["a rule that allows a program of the kind", "diagnostics", [{ action: "allow", program: ["bash"], kind: ["shell"] }], "run"],
    ["a rule for all kinds", "diagnostics", [{ action: "allow", program: ["bash"] }], ""],
    ["a rule for some users", "diagnostics", [{ action: "allow", kind: ["sh*"], user: ["token:ann"] }], "run"],
    ["an approval of a named program", "diagnostics", [{ action: "require_approval", program: ["bash"] }], ""],
    ["an approval without a program", "diagnostics", [{ action: "require_approval" }], "shell run"],
    ["a rule that denies a kind", "full", [{ action: "deny", kind: ["shell"] }], "shell"],
    ["a rule that denies everything", "full", [{ action: "deny", program: ["*"] }], "exec shell run"],
    [
      "a rule that denies some",
      "full",
      [
        { action: "deny", program: ["rm"] },
        { action: "deny", environment: ["production"] },
      ],
      "",
    ],
    ["a rule before one that denies", "full", [{ action: "allow", program: ["ps"], kind: ["exec"] }, { action: "deny" }], "shell run"],
  ])("applies %s", (_what, profile, rules, refused) => {
    expect(Object.keys(refusedCommands({ profile, rules: rules.map(rule) })).join(" ")).toBe(refused);
  });
});

describe("ownerIn()", () => {
  it.each([
    [
      {
        metadata: {
          ownerReferences: [
            { kind: "Node", name: "n" },
            { kind: "DaemonSet", name: "coral", controller: true },
          ],
        },
      },
      { kind: "DaemonSet", name: "coral" },
    ],
    [{ metadata: { ownerReferences: [{ kind: "ReplicaSet", name: "shop-1" }] } }, { kind: "ReplicaSet", name: "shop-1" }],
    [{ metadata: {} }, { kind: "", name: "" }],
    [{ metadata: { ownerReferences: "x" } }, { kind: "", name: "" }],
    [null, { kind: "", name: "" }],
  ])("reads %j", (pod, owner) => {
    expect(ownerIn(pod)).toEqual(owner);
  });
});
