import { createRouterTransport } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import type { Tunnel } from "../../transport/index.ts";
import { createColonyMetrics } from "../core/colony-metrics.ts";
import { Ingest } from "./ingest.ts";
import { PullScheduler } from "./pull-scheduler.ts";

interface Bench {
  scheduler: PullScheduler;
  running: Promise<void>;
  stopped: AbortController;
}

/** Pulls from one agent, once an hour; `pull` is called for each. */
function benchOf(pull: () => void | Promise<void>): Bench {
  const transport = createRouterTransport((router) =>
    router.service(AgentService, {
      pull: async () => {
        await pull();
        return { epoch: "e", slices: [], losses: [], more: false, oldestAgeMs: 0n };
      },
    }),
  );
  const scheduler = new PullScheduler({
    store: { checkpoints: () => ({ afterSeq: new Map<string, number>() }) },
    ingest: new Ingest({ applyPulls: () => Promise.resolve([]) }),
    signals: ["red"],
    settings: () => ({ intervalMs: 3_600_000, concurrency: 4, timeoutMs: 5_000, maxBatchBytes: 1_000_000 }),
    clock: systemClock,
    log: silentLogger,
    metrics: createColonyMetrics({ agentsByHealth: () => ({}), storeBytes: () => Promise.resolve(0) }),
    onContact: () => undefined,
  });
  const stopped = new AbortController();
  const running = scheduler.run({ agentId: "web-1", transport } as unknown as Tunnel, "e", stopped.signal);
  return { scheduler, running, stopped };
}

test("pullNow() pulls before the interval is over, as often as it is called", async () => {
  let pulls = 0;
  const { scheduler, running, stopped } = benchOf(() => void pulls++);
  for (const wanted of [2, 3, 4]) {
    await expect
      .poll(() => {
        if (pulls < wanted) scheduler.pullNow("web-1");
        return pulls;
      })
      .toBeGreaterThanOrEqual(wanted);
  }
  scheduler.pullNow("another");
  stopped.abort();
  await running;
});

test("pullNow() during a pull triggers another one", async () => {
  let pulls = 0;
  const { scheduler, running, stopped } = benchOf(() => {
    pulls++;
    // The first two pulls come by themselves, the third only by request.
    if (pulls === 2) scheduler.pullNow("web-1");
  });
  await expect.poll(() => pulls, { timeout: 10_000 }).toBe(3);
  stopped.abort();
  await running;
});
