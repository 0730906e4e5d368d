// `npm run build`: builds bundle and BPF objects, even if they are up to date.
import { buildObjects } from "./lib/bpf-objects.mjs";
import { bundle } from "./lib/bundle.mjs";
import { reportFailure, step, warn } from "./lib/report.mjs";
import { withSetupLock } from "./lib/setup-lock.mjs";

try {
  await withSetupLock(async () => {
    await step("bundle", bundle);
    const degraded = await step("eBPF programs", buildObjects);
    if (degraded !== undefined) warn(degraded);
  });
} catch (error) {
  reportFailure(error);
}
