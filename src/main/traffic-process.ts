/** Entry point of the agent's traffic process: see `src/traffic`. */

import { runTrafficProcess, type TrafficChannel, type TrafficOrder } from "../traffic/index.ts";

const channel: TrafficChannel = {
  send: (message, sent) => {
    // `onClose` exits when the channel to the agent closes.
    if (process.connected) process.send?.(message, undefined, undefined, () => sent());
  },
  onOrder: (listener) => {
    process.on("message", (order) => listener(order as TrafficOrder));
  },
  onClose: (listener) => {
    process.on("disconnect", listener);
  },
  exit: (code) => process.exit(code),
  // Not exit(): it waits for threads, and one that loads BPF programs may wait for this one.
  end: () => process.kill(process.pid, "SIGKILL"),
};

runTrafficProcess(channel);
