/** Entry point of the colony's SQL process: see `src/store/sql`. */

import { preferForOutOfMemoryKill } from "../host/index.ts";
import { runSqlProcess, type SqlOrder } from "../store/sql/index.ts";

preferForOutOfMemoryKill();
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
