/** What the CLI asks of this process: everything heavy comes in by lazy import, so that `coral version` loads none of it. */

import type { CliRuntime, DaemonKind, RunOptions } from "../cli/index.ts";

export function createRuntime(): CliRuntime {
  return {
    run: async (kind, options, onReady) => {
      const { resolveHome } = await import("../config/index.ts");
      const { runAgent, runBoth, runColony } = await import("./run-daemon.ts");
      const home = resolveHome();
      const runners: Record<DaemonKind, () => Promise<void>> = {
        colony: () => runColony(home, options, onReady),
        agent: () => runAgent(home, options, onReady),
        up: () => runBoth(home, options, onReady),
      };
      await runners[kind]();
    },
    start: async (kind, options) => {
      const { resolveHome } = await import("../config/index.ts");
      const { startInBackground } = await import("./background-daemon.ts");
      return startInBackground(await backgroundTarget(resolveHome(), kind, options));
    },
    stop: async (kind, { colonyId, timeoutMs }) => {
      const { resolveHome } = await import("../config/index.ts");
      const { stopInBackground } = await import("./background-daemon.ts");
      const target = await backgroundTarget(resolveHome(), kind, colonyId === undefined ? {} : { colonyId });
      return stopInBackground(kind, target.pidFile, timeoutMs);
    },
    init: async (options) => {
      const { resolveHome } = await import("../config/index.ts");
      const { initColony } = await import("./init-colony.ts");
      return initColony(resolveHome(), options);
    },
    signalNames: async () => {
      const { signals } = await import("../store/index.ts");
      return signals.map((signal) => signal.name);
    },
    doctor: async () => {
      const { resolveHome } = await import("../config/index.ts");
      const { runDoctor } = await import("./doctor.ts");
      return runDoctor(resolveHome());
    },
  };
}

async function backgroundTarget(home: string, kind: "colony" | "agent", options: RunOptions) {
  const { agentPaths, colonyPaths, makePrivateDirectory, resolveColony } = await import("../config/index.ts");
  const flags = [
    ...(options.config === undefined ? [] : ["--config", options.config]),
    ...(options.logLevel === undefined ? [] : ["--log-level", options.logLevel]),
    ...(options.listen === undefined ? [] : ["--listen", options.listen]),
  ];
  if (kind === "agent") {
    const paths = agentPaths(home);
    await makePrivateDirectory(paths.logsDirectory);
    const more = options.colonyId === undefined ? [] : ["--colony-id", options.colonyId];
    return {
      kind,
      ...paths,
      args: ["agent", "start", ...flags, ...more],
      env: options.token === undefined ? {} : { CORAL_JOIN_TOKEN: options.token },
    };
  }
  const { colonyId } = await resolveColony(home, options.colonyId);
  const paths = colonyPaths(home, colonyId);
  await makePrivateDirectory(paths.logsDirectory);
  return { kind, ...paths, args: ["colony", "start", "--colony", colonyId, ...flags], env: {} };
}
