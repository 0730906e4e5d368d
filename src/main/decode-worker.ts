/** Entry point of the decode worker thread of agent and colony: see `src/otlp`. */

import { parentPort } from "node:worker_threads";
import { lowerThreadPriority } from "../host/index.ts";
import { type DecodeOrder, runDecodeWorker } from "../otlp/index.ts";

/**
 * Nice value of the worker. Under full load the receiving thread must run first: with one worker per CPU it would otherwise wait half of the time.
 * With a higher value, rows could take more than a second to become visible.
 */
const niceness = 5;

const port = parentPort;
if (port !== null) {
  lowerThreadPriority(niceness);
  runDecodeWorker({
    onOrder: (listener) => {
      port.on("message", (order: DecodeOrder) => listener(order));
    },
    report: (report) => port.postMessage(report),
  });
}
