import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { commandVariable } from "./command-environment.ts";
import { ProcessTree } from "./process-tree.ts";
import { endOf, runPipeline } from "./run-pipeline.ts";
import { createSpawner } from "./spawner.ts";
import { startWatchdog } from "./watchdog.ts";

describe("runPipeline()", () => {
  it("interrupts a timed-out program and still delivers its last output through the pipeline", async () => {
    using spawner = createSpawner(silentLogger);
    using watchdog = startWatchdog([], silentLogger);
    const commandId = randomUUID();
    const counting = "trap 'echo summary; exit 0' INT; while :; do sleep 0.02; done";
    const spawned = await spawner.start({
      programs: [
        ["/bin/sh", "-c", counting],
        ["/bin/cat", "-u"],
      ],
      environment: { [commandVariable]: commandId, PATH: "/usr/bin:/bin" },
    });
    const running = runPipeline({
      spawned,
      tree: new ProcessTree(undefined, commandId, watchdog),
      bounds: { timeoutMs: 10_000, maxOutputBytes: undefined, stopAfterMs: undefined },
      interruptMs: [300, undefined],
      isWrapped: false,
      log: silentLogger,
    });
    running.endInput();
    let output = "";
    for await (const { data } of running.output()) output += Buffer.from(data).toString();
    expect(output).toBe("summary\n");
    expect(await running.ended).toMatchObject({ reason: "exited", exitCode: 0 });
  });
});

describe("endOf()", () => {
  it.each([
    [undefined, 0, null, { reason: "exited", exitCode: 0, signal: "" }],
    [undefined, 3, null, { reason: "exited", exitCode: 3, signal: "" }],
    [undefined, null, "SIGKILL", { reason: "signalled", exitCode: 137, signal: "SIGKILL" }],
    ["timeout", null, "SIGTERM", { reason: "timeout", exitCode: 124, signal: "SIGTERM" }],
    ["cancelled", null, "SIGTERM", { reason: "cancelled", exitCode: 143, signal: "SIGTERM" }],
    ["output-limit", null, "SIGKILL", { reason: "output-limit", exitCode: 137, signal: "SIGKILL" }],
  ] as const)("maps %s, %s, %s to the exit code of a shell", (reason, code, signal, expected) => {
    expect(endOf(reason, code, signal)).toEqual(expected);
  });
});
