/** Faults of whole processes: killed, hanging, starved, restarted, misconfigured. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { LiveFault } from "../live-fault.ts";
import type { LiveWorld } from "../live-world.ts";

const mebibyte = 1024 ** 2;
const needsGroups = (world: LiveWorld): string | undefined => world.noGroups;

function configureNginx(world: LiveWorld, broken?: string): void {
  writeFileSync(join(world.directory, world.names.nginx, "nginx.conf"), world.nginxConfig(broken === undefined ? {} : { broken }));
  world.program("nginx").signal("SIGHUP");
}

const scriptOf = (world: LiveWorld): string => join(world.directory, world.names.payments, `${world.names.payments}.mjs`);
const goodCode = `"GET /charges/:id": async (id) => ({ id, state: "paid" })`;
const badCode = `"GET /charges/:id": async (id) => ({ id, state: undefined.paid })`;

async function deploy(world: LiveWorld, from: string, to: string): Promise<void> {
  const text = readFileSync(scriptOf(world), "utf8");
  if (!text.includes(from)) throw new Error("The program does not contain the code to replace");
  writeFileSync(scriptOf(world), text.replace(from, to));
  await world.program("payments").restart();
}

export const processFaults: readonly LiveFault[] = [
  {
    name: "killed, with callers that fail",
    kind: "down",
    service: "payments",
    pointers: ["not running"],
    inject: (world) => world.program("payments").stop(),
    repair: async (world) => void (await world.program("payments").start()),
  },
  {
    name: "hangs, with callers that time out",
    kind: "hang",
    service: "provider",
    pointers: ["responds to nothing", "POST /v1/charges"],
    inject: (world) => world.program("provider").signal("SIGSTOP"),
    repair: (world) => world.program("provider").signal("SIGCONT"),
  },
  {
    name: "throttled at its CPU limit",
    kind: "cpu-quota",
    service: "catalog",
    pointers: ["throttled", "CPU limit"],
    skipReason: needsGroups,
    inject: (world) => world.program("catalog").group?.limitCpu(0.02),
    repair: (world) => world.program("catalog").group?.limitCpu(null),
  },
  {
    name: "leaks until the kernel kills it",
    kind: "out-of-memory",
    service: "catalog",
    pointers: ["memory limit"],
    skipReason: needsGroups,
    inject: (world) => {
      const program = world.program("catalog");
      program.isSupervised = true;
      program.group?.limitMemory(200 * mebibyte);
      program.behave({ leakBytes: 8 * mebibyte });
    },
    repair: async (world) => {
      const program = world.program("catalog");
      program.behave({});
      program.group?.limitMemory(null);
      program.isSupervised = false;
      await program.restart();
    },
  },
  {
    name: "ends soon after each start",
    kind: "crash-loop",
    service: "mailer",
    pointers: ["restarted", "not running"],
    inject: (world) => {
      const program = world.program("mailer");
      program.isSupervised = true;
      program.behave({ exitAfterMs: 3_000 });
    },
    repair: async (world) => {
      const program = world.program("mailer");
      program.isSupervised = false;
      program.behave({});
      await program.restart();
    },
  },
  {
    name: "one path forwarded to nowhere",
    kind: "bad-configuration",
    service: "nginx",
    pointers: ["GET /search"],
    inject: (world) => configureNginx(world, "/search"),
    repair: (world) => configureNginx(world),
  },
  {
    name: "a deployment that breaks a route",
    kind: "bad-deploy",
    service: "payments",
    pointers: ["GET /charges/"],
    inject: (world) => deploy(world, goodCode, badCode),
    repair: (world) => deploy(world, badCode, goodCode),
  },
];
