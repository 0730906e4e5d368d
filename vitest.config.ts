import { defineConfig } from "vitest/config";
import { OutcomeReporter } from "./test/outcome-reporter.ts";
import { SkippedReporter } from "./test/skipped-reporter.ts";
import { TestOrder } from "./test/test-order.ts";

/** Files run one at a time, after all other projects: tests that load BPF programs share the kernel, and lose events when they get no processor. */
const serial = { fileParallelism: false, maxWorkers: 1 };

/**
 * Tests of rooms whose subject is the process itself: kernel handles, children, signals, start-up. Each file has a process of its own. The files of all other
 * rooms share one process per worker, which loads Coral and DuckDB once: that halves their processor time. A file that crashes still fails alone.
 */
const ownProcess = ["src/{bpf,exec,main}/**/*.test.ts"];

const unit = { testTimeout: 120_000, hookTimeout: 120_000 };

const setupFiles = ["./test/wait-timeout.ts"];

export default defineConfig({
  test: {
    environment: "node",
    reporters: [new SkippedReporter(), new OutcomeReporter(), "default"],
    sequence: { sequencer: TestOrder },
    // Daemon tests mostly wait, but more workers cause timeouts on a small machine.
    maxWorkers: 3,
    // Conditions usually hold within milliseconds; the default of one second is too short on a busy machine.
    expect: { poll: { timeout: 30_000 } },
    setupFiles,
    projects: [
      {
        extends: true,
        test: {
          ...unit,
          name: "unit",
          include: ["src/**/*.test.ts", "test/*.test.ts"],
          exclude: ownProcess,
          isolate: false,
          setupFiles: [...setupFiles, "./test/shared-process.ts"],
          unstubGlobals: true,
          restoreMocks: true,
        },
      },
      { extends: true, test: { ...unit, name: "unit-process", include: ownProcess } },
      {
        extends: true,
        test: { name: "integration", include: ["test/integration/**/*.test.ts"], testTimeout: 600_000, hookTimeout: 300_000 },
      },
      // Each test starts daemons with a home and ports of its own.
      { extends: true, test: { name: "e2e", include: ["test/e2e/**/*.test.ts"], testTimeout: 600_000, hookTimeout: 300_000 } },
      {
        extends: true,
        test: {
          ...serial,
          name: "privileged",
          include: ["test/privileged/**/*.test.ts"],
          testTimeout: 600_000,
          hookTimeout: 300_000,
        },
      },
    ],
  },
});
