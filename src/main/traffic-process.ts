/** What the agent runs as the traffic process: see `src/traffic`. */

import { runTrafficProcess, type TrafficChannel, type TrafficOrder } from "../traffic/index.ts";

const channel: TrafficChannel = {
  send: (message, sent) => {
    // A channel that is closed ends the process elsewhere.
    if (process.connected) process.send?.(message, undefined, undefined, () => sent());
  },
  onOrder: (listener) => {
    process.on("message", (order) => listener(order as TrafficOrder));
  },
  onClose: (listener) => {
    process.on("disconnect", listener);
  },
  exit: (code) => process.exit(code),
  // Not exit(): that waits for threads, and one that loads programs may be waiting for this one.
  end: () => process.kill(process.pid, "SIGKILL"),
};

runTrafficProcess(channel);
