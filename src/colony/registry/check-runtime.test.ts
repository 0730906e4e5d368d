import { describe, expect, it } from "vitest";
import { sampleRuntime, sampleSidecar } from "../../model/runtime-facts.fixture.ts";
import { capabilityOf, type RuntimeFacts } from "../../model/runtime-facts.ts";
import { checkRuntime } from "./check-runtime.ts";

const daemonSet = sampleRuntime({
  runtimeType: "k8s-daemonset",
  visibility: { allPids: true, allContainers: true, podScope: false, containers: [], namespace: "node", moreContainers: 0 },
});

/** Everything is claimed. */
function claimAll(runtime: RuntimeFacts): RuntimeFacts {
  return { ...runtime, capabilities: runtime.capabilities.map(({ name }) => ({ name, available: true, reason: "", fix: "" })) };
}

describe("checkRuntime()", () => {
  it.each([
    ["native", sampleRuntime(), "connect exec shell run"],
    ["container", sampleRuntime({ runtimeType: "docker" }), "connect exec shell run"],
    ["sidecar, CRI", sampleSidecar("cri"), "connect exec shell"],
    ["sidecar, shared namespace", sampleSidecar("shared-ns"), "connect exec shell"],
    ["sidecar, passive", sampleSidecar("passive"), "connect"],
    ["DaemonSet", daemonSet, "connect exec shell"],
  ])("believes %s what it can do, and nothing more", (_name, runtime, able) => {
    const commands = ["connect", "exec", "shell", "run"];
    const can = ({ facts }: ReturnType<typeof checkRuntime>) => commands.filter((name) => capabilityOf(facts, name)?.available).join(" ");
    const honest = checkRuntime(runtime);
    expect([can(honest), honest.problems]).toEqual([able, []]);
    const lying = checkRuntime(claimAll(runtime));
    expect(can(lying)).toBe(able);
    expect(lying.problems).toHaveLength(commands.length - able.split(" ").length);
  });

  it("tells what was claimed", () => {
    const { facts, problems } = checkRuntime(claimAll(sampleSidecar("passive")));
    expect(problems).toContain("claims exec, which Kubernetes Sidecar (Passive mode) cannot do");
    expect(capabilityOf(facts, "exec")?.reason).toBe("claimed, but not believed: passive mode - no CRI socket, no shared namespace");
  });

  it.each<[Partial<RuntimeFacts>, string]>([
    [{ sidecarMode: "cri" }, "is no sidecar"],
    [{ runtimeType: "k8s-sidecar" }, "without a mode"],
    [{ ...sampleSidecar("cri"), containerRuntime: null }, "CRI mode without a container runtime"],
    [{ ...sampleSidecar("passive"), containerRuntime: { socketPath: "/x", type: "containerd", version: "1" } }, "passive mode beside"],
    [{ ...sampleSidecar("cri"), visibility: sampleRuntime().visibility }, "sees beyond its pod"],
    [{ visibility: sampleSidecar("cri").visibility }, "no sidecar"],
    [{ runtimeType: "" }, "names no runtime type"],
    [{ capabilities: [] }, "cannot connect"],
  ])("notices what does not fit together: %j", (change, problem) => {
    expect(checkRuntime({ ...sampleRuntime(), ...change }).problems.join("; ")).toContain(problem);
  });

  it("takes words that only a newer agent knows", () => {
    const newer = sampleRuntime({ runtimeType: "wasm", capabilities: [{ name: "fly", available: true, reason: "", fix: "" }] });
    expect(checkRuntime(newer)).toEqual({ facts: newer, problems: [] });
  });
});
