/** Trials without a fault, although something changes: any accusation is false. */

import { connect, type Socket } from "node:net";
import { startCpuLoads, stopCpuLoads, unrelatedDeploy } from "./fault-trials.ts";
import type { ControlTrial } from "./trial.ts";

const slowClients: Socket[] = [];

export const controlTrials: readonly ControlTrial[] = [
  { name: "nothing happens", inject: () => undefined, repair: () => undefined },
  { name: "an unrelated deployment", inject: (trial) => unrelatedDeploy(trial, "catalog"), repair: () => undefined },
  {
    name: "twice the traffic",
    inject: ({ world }) => void world.program("load").child?.stdin?.write("2\n"),
    repair: ({ world }) => void world.program("load").child?.stdin?.write("1\n"),
  },
  { name: "a batch job at low CPU priority", inject: () => startCpuLoads(1, 19), repair: stopCpuLoads },
  { name: "the agent restarts", inject: ({ colony }) => colony.restart(), repair: () => undefined },
  {
    name: "a slow client",
    inject: ({ world }) => {
      for (let one = 0; one < 4; one++) {
        const socket = connect(world.ports.nginx, "127.0.0.1");
        socket.on("error", () => undefined).pause();
        socket.write("GET /search HTTP/1.1\r\nHost: shop\r\n");
        const timer = setInterval(() => socket.write("x-slow: yes\r\n"), 4_000);
        socket.once("close", () => clearInterval(timer));
        slowClients.push(socket);
      }
    },
    repair: () => {
      for (const socket of slowClients.splice(0)) socket.destroy();
    },
  },
];
