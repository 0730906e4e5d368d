/** What the agent and the colony run as a decode worker: see `src/otlp`. */

import { parentPort } from "node:worker_threads";
import { type DecodeOrder, runDecodeWorker } from "../otlp/index.ts";

const port = parentPort;
if (port !== null) {
  runDecodeWorker({
    onOrder: (listener) => {
      port.on("message", (order: DecodeOrder) => listener(order));
    },
    report: (report) => port.postMessage(report),
  });
}
