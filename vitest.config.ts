import { defineConfig } from "vitest/config";
import { DoubtReporter } from "./test/doubt-reporter.ts";
import { OutcomeReporter } from "./test/outcome-reporter.ts";

/** Tests that load BPF programs and count what they see share cgroups and the kernel: one file at a time. */
const serial = { fileParallelism: false, maxWorkers: 1 };

export default defineConfig({
  test: {
    environment: "node",
    reporters: [new DoubtReporter(), new OutcomeReporter(), "default"],
    // Tests of daemons wait most of the time. More workers on a small machine only add time-outs.
    maxWorkers: 3,
    // What is waited for takes milliseconds; a second, the default, is too short on a busy machine.
    expect: { poll: { timeout: 30_000 } },
    setupFiles: ["./test/patience.ts"],
    projects: [
      {
        extends: true,
        test: { name: "unit", include: ["src/**/*.test.ts", "test/*.test.ts"], testTimeout: 120_000, hookTimeout: 120_000 },
      },
      {
        extends: true,
        test: { name: "integration", include: ["test/integration/**/*.test.ts"], testTimeout: 300_000, hookTimeout: 180_000 },
      },
      // Daemons with homes and ports of their own; most of the time they wait.
      { extends: true, test: { name: "e2e", include: ["test/e2e/**/*.test.ts"], testTimeout: 300_000, hookTimeout: 180_000 } },
      {
        extends: true,
        test: {
          ...serial,
          name: "privileged",
          include: ["test/privileged/**/*.test.ts"],
          testTimeout: 300_000,
          hookTimeout: 180_000,
        },
      },
    ],
  },
});
