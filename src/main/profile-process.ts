/** Entry point of the agent's profile process: see `src/profile`. */

import { type ProfileChannel, type ProfileOrder, runProfileProcess } from "../profile/index.ts";

const channel: ProfileChannel = {
  send: (message, sent) => {
    // `onClose` exits when the channel to the agent closes.
    if (process.connected) process.send?.(message, undefined, undefined, () => sent());
  },
  onOrder: (listener) => {
    process.on("message", (order) => listener(order as ProfileOrder));
  },
  onClose: (listener) => {
    process.on("disconnect", listener);
  },
  exit: (code) => process.exit(code),
  // Not exit(): it waits for threads, and one that loads BPF programs may wait for this one.
  end: () => process.kill(process.pid, "SIGKILL"),
};

runProfileProcess(channel);
