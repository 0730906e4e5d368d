/** Entry point of the colony's SQL process: see `src/store/sql`. */

import { writeFileSync } from "node:fs";
import { runSqlProcess, type SqlOrder } from "../store/sql/index.ts";

try {
  // Under memory pressure the kernel ends this process before any other.
  writeFileSync("/proc/self/oom_score_adj", "1000");
} catch {
  // Without /proc nothing else changes.
}
// Not exit(): it waits for threads, and one may be in a call that does not return.
process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));

runSqlProcess({
  onOrder: (listener) => {
    process.on("message", (order) => listener(order as SqlOrder));
  },
  answer: (answer) => {
    if (process.connected) process.send?.(answer);
  },
});
