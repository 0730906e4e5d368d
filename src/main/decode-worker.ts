/** What the agent and the colony run as a decode worker: see `src/otlp`. */

import { parentPort } from "node:worker_threads";
import { lowerThreadPriority } from "../host/index.ts";
import { type DecodeOrder, runDecodeWorker } from "../otlp/index.ts";

/**
 * Of `nice`. Where all want the processors, those who send are answered first: with as many workers as processors, the receiver's thread would wait its
 * turn for half of the time. More steps, and rows could no longer be asked for within a second.
 */
const stepsBack = 5;

const port = parentPort;
if (port !== null) {
  lowerThreadPriority(stepsBack);
  runDecodeWorker({
    onOrder: (listener) => {
      port.on("message", (order: DecodeOrder) => listener(order));
    },
    report: (report) => port.postMessage(report),
  });
}
