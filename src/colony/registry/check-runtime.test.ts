import { describe, expect, it } from "vitest";
import { sampleRuntime, sampleSidecar } from "../../model/runtime-facts.fixture.ts";
import { capabilityOf, type RuntimeFacts } from "../../model/runtime-facts.ts";
import { checkRuntime } from "./check-runtime.ts";

const daemonSet = sampleRuntime({
  runtimeType: "k8s-daemonset",
  visibility: { allPids: true, allContainers: true, podScope: false, containers: [], namespace: "node", moreContainers: 0 },
});

/** Claims every capability. */
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
  ])("accepts only what %s can do", (_name, runtime, able) => {
    const commands = ["connect", "exec", "shell", "run"];
    const can = ({ facts }: ReturnType<typeof checkRuntime>) => commands.filter((name) => capabilityOf(facts, name)?.available).join(" ");
    const honest = checkRuntime(runtime);
    expect([can(honest), honest.problems]).toEqual([able, []]);
    const lying = checkRuntime(claimAll(runtime));
    expect(can(lying)).toBe(able);
    expect(lying.problems).toHaveLength(commands.length - able.split(" ").length);
  });

  it("reports impossible claims", () => {
    const { facts, problems } = checkRuntime(claimAll(sampleSidecar("passive")));
    expect(problems).toContain("claims exec, which Kubernetes Sidecar (Passive mode) cannot do");
    expect(capabilityOf(facts, "exec")?.reason).toBe(
      "claimed by the agent, but impossible: passive mode - no CRI socket, no shared namespace",
    );
  });

  it.each<[Partial<RuntimeFacts>, string]>([
    [{ sidecarMode: "cri" }, "is not a sidecar"],
    [{ runtimeType: "k8s-sidecar" }, "without a mode"],
    [{ ...sampleSidecar("cri"), containerRuntime: null }, "CRI mode without a container runtime"],
    [{ ...sampleSidecar("passive"), containerRuntime: { socketPath: "/x", type: "containerd", version: "1" } }, "passive mode but has"],
    [{ ...sampleSidecar("cri"), visibility: sampleRuntime().visibility }, "sees beyond its pod"],
    [{ visibility: sampleSidecar("cri").visibility }, "limited to a pod but is not a sidecar"],
    [{ runtimeType: "" }, "reports no runtime type"],
    [{ capabilities: [] }, "cannot connect"],
  ])("finds contradictions: %j", (change, problem) => {
    expect(checkRuntime({ ...sampleRuntime(), ...change }).problems.join("; ")).toContain(problem);
  });

  it("accepts values that only newer agents know", () => {
    const newer = sampleRuntime({ runtimeType: "wasm", capabilities: [{ name: "fly", available: true, reason: "", fix: "" }] });
    expect(checkRuntime(newer)).toEqual({ facts: newer, problems: [] });
  });
});
