import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, it } from "vitest";
import { type KernelAbility, probeKernelAbilities } from "../../src/bpf/index.ts";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";

const dist = fileURLToPath(new URL("../../dist/", import.meta.url));
const objectPath = `${dist}probes/ability.bpf.o`;

function find(abilities: readonly KernelAbility[], name: KernelAbility["name"]): KernelAbility | undefined {
  return abilities.find((ability) => ability.name === name);
}

/** Runs the probe child as another user and returns the outcome per ability. */
function tryAs(...privileges: string[]): Map<string, { stage: string; errno?: number }> {
  const args = [...privileges, process.execPath, `${dist}ability-child.js`, objectPath, "raw_tp", "perf_event", "uprobe", "uprobe_multi"];
  const { stdout } = spawnSync("setpriv", ["--reuid=65534", "--regid=65534", "--clear-groups", ...args], { encoding: "utf8" });
  const lines = stdout
    .split("\n")
    .filter((line) => line.includes('"end"'))
    .map((line) => JSON.parse(line));
  return new Map(lines.map(({ end, outcome }) => [end, outcome]));
}

describe("kernel abilities", () => {
  beforeEach((context) => {
    const reason = probesSkipReason();
    context.skip(reason !== undefined, reason);
  });

  it("probeKernelAbilities() attaches the hooks that Coral requires", async () => {
    const abilities = await probeKernelAbilities();
    for (const name of ["ring_buffer", "raw_tp", "tp_btf", "perf_event", "uprobe"] as const) {
      expect(find(abilities, name)).toMatchObject({ name, available: true, reason: "" });
    }
  });

  it("probeKernelAbilities() returns a reason for each hook that this kernel lacks", async () => {
    const hasKprobes = existsSync("/sys/bus/event_source/devices/kprobe/type");
    const abilities = await probeKernelAbilities();
    const kprobe = find(abilities, "kprobe");
    expect(kprobe?.available).toBe(hasKprobes);
    for (const ability of abilities) if (!ability.available) expect(ability.reason).not.toBe("");
    if (!hasKprobes) expect(kprobe?.reason).toContain("CONFIG_KPROBE_EVENTS");
  });

  it("are denied with EPERM to a user without capabilities", () => {
    for (const [, outcome] of tryAs()) expect(outcome).toMatchObject({ stage: "load", errno: 1 });
    expect(tryAs().size).toBe(4);
  });

  it("are available without root, with CAP_BPF and CAP_PERFMON", () => {
    const outcomes = tryAs("--inh-caps=+bpf,+perfmon", "--ambient-caps=+bpf,+perfmon");
    expect(outcomes.get("raw_tp")).toEqual({ stage: "attached" });
    expect(outcomes.get("perf_event")).toEqual({ stage: "attached" });
  });
});
