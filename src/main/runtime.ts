/** Implements CliRuntime. Imports everything heavy lazily, so that `coral version` stays fast. */

import { resolve } from "node:path";
import type { CliRuntime, DaemonKind, RunOptions } from "../cli/index.ts";

export function createRuntime(): CliRuntime {
  return {
    run: async (kind, options, onReady) => {
      const { spareMemory } = await import("./daemon/spare-memory.ts");
      spareMemory(kind);
      const { resolveHome } = await import("../config/index.ts");
      const { runAgent, runBoth, runColony } = await import("./daemon/run-daemon.ts");
      const home = resolveHome();
      // The database creates its files with the process's umask.
      process.umask(0o077);
      const runners: Record<DaemonKind, () => Promise<void>> = {
        colony: () => runColony(home, options, onReady),
        agent: () => runAgent(home, options, onReady),
        up: () => runBoth(home, options, onReady),
      };
      await runners[kind]();
    },
    start: async (kind, options) => {
      const { resolveHome } = await import("../config/index.ts");
      const { startInBackground } = await import("./daemon/background-daemon.ts");
      return startInBackground(await backgroundTarget(resolveHome(), kind, options));
    },
    stop: async (kind, { colonyId, timeoutMs }) => {
      const { resolveHome } = await import("../config/index.ts");
      const { stopInBackground } = await import("./daemon/background-daemon.ts");
      const { pidFile } = await pathsOf(resolveHome(), kind, colonyId);
      return stopInBackground(kind, pidFile, timeoutMs);
    },
    init: async (options) => {
      const { resolveHome } = await import("../config/index.ts");
      const { initColony } = await import("./daemon/init-colony.ts");
      return initColony(resolveHome(), options);
    },
    signalNames: async () => {
      const { derivedSignals, segmentSignals, signals } = await import("../store/signals/index.ts");
      return [...signals, ...derivedSignals, ...segmentSignals].map((signal) => signal.name);
    },
    doctor: async () => {
      const { resolveHome } = await import("../config/index.ts");
      const { runDoctor } = await import("./doctor.ts");
      return runDoctor(resolveHome());
    },
  };
}

type BackgroundKind = "colony" | "agent";

async function pathsOf(home: string, kind: BackgroundKind, colonyId: string | undefined) {
  const { agentPaths, colonyPaths, resolveColony } = await import("../config/index.ts");
  if (kind === "agent") return { colonyId, ...agentPaths(home) };
  const target = await resolveColony(home, colonyId);
  return { colonyId: target.colonyId, ...colonyPaths(home, target.colonyId) };
}

async function backgroundTarget(home: string, kind: BackgroundKind, options: RunOptions) {
  const { makePrivateDirectory } = await import("../config/index.ts");
  const paths = await pathsOf(home, kind, options.colonyId);
  await makePrivateDirectory(paths.logsDirectory);
  const flag = (name: string, value: string | undefined): string[] => (value === undefined ? [] : [name, value]);
  return {
    kind,
    ...paths,
    args: [
      kind,
      "start",
      ...flag(kind === "agent" ? "--colony-id" : "--colony", paths.colonyId),
      // The daemon runs in another working directory.
      ...flag("--config", options.config === undefined ? undefined : resolve(options.config)),
      ...flag("--listen", options.listen),
      ...flag("--log-level", options.logLevel),
      ...flag("--log-format", options.logFormat),
    ],
    env: { CORAL_HOME: home, ...(options.token === undefined ? {} : { CORAL_JOIN_TOKEN: options.token }) },
  };
}
