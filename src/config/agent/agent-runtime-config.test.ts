import { describe, expect, it } from "vitest";
import { agentRuntimeSection, toAgentRuntime } from "./agent-runtime-config.ts";

const read = (file: unknown) => toAgentRuntime(agentRuntimeSection.parse(file));

describe("toAgentRuntime()", () => {
  it("detects and reports every five minutes by default", () => {
    expect(read({})).toEqual({
      isReported: true,
      logsDetection: true,
      refreshIntervalMs: 300_000,
      refreshOnConfig: true,
      override: { runtimeType: "", sidecarMode: "" },
      targets: [],
    });
  });

  it("applies overrides", () => {
    const file = { reporting: { enabled: false }, override: { runtime_type: "k8s-sidecar", sidecar_mode: "passive" }, targets: ["app"] };
    expect(read(file)).toMatchObject({
      isReported: false,
      override: { runtimeType: "k8s-sidecar", sidecarMode: "passive" },
      targets: ["app"],
    });
  });

  it.each([{ override: { runtime_type: "vm" } }, { refresh_interval: "1s" }, { reporting: { enabled: "yes" } }, { unknown: 1 }])(
    "rejects %j",
    (file) => {
      expect(agentRuntimeSection.safeParse(file).success).toBe(false);
    },
  );
});
