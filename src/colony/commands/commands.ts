/** Commands at the colony: from who asked for what to the agents that are able, all of them at once, and back. */

import { randomUUID } from "node:crypto";
import type { Flow } from "../../base/flow-load.ts";
import {
  type ColonyBackend,
  type ResolvedTargets,
  resolveTargets,
  type TargetAgent,
  type ToolCallContext,
  usableTargets,
  wishText,
} from "../../tools/index.ts";
import {
  type CommandAsk,
  type CommandPlace,
  commandOrder,
  type FrameStream,
  readCommand,
  runCommand,
  type SkippedTarget,
} from "../../transport/index.ts";
import { auditedRun, type CommandCaller, type CommandsOptions, type RoutedCommand } from "../audit/routed-command.ts";
import { executeCommand } from "./execute-command.ts";
import { followCommand } from "./follow-command.ts";

export interface Commands {
  /** One command of a client on frames, up to the end of all its agents. */
  serve(frames: FrameStream, backend: ColonyBackend, caller: Omit<CommandCaller, "through" | "questionId">): Promise<void>;
  execute: ColonyBackend["execute"];
}

export function createCommands(options: CommandsOptions): Commands {
  return {
    serve: (frames, backend, caller) => serveCommand(options, frames, backend, caller),
    execute: (request, context) => executeCommand(options, request, context),
  };
}

async function serveCommand(
  options: CommandsOptions,
  frames: FrameStream,
  backend: ColonyBackend,
  who: { name: string; from: string },
): Promise<void> {
  const asked = await readCommand(frames);
  const { ask } = asked;
  const caller: CommandCaller = { ...who, through: ask.through ?? "http", questionId: "" };
  const routed: RoutedCommand = {
    commandId: randomUUID(),
    kind: ask.command,
    caller,
    target: wishText(ask.targets ?? {}),
    command: commandWords(ask),
    agentIds: [],
  };
  const { resolved, targets } = await chooseTargets(options, backend, ask, routed, { signal: frames.signal, caller: who.name, ...who });
  routed.agentIds = targets.map((target) => target.agentId);
  const order = commandOrder(ask, routed.commandId, placeOf(ask, resolved.service), caller);
  await auditedRun(options, routed, () =>
    runCommand(asked, {
      commandId: routed.commandId,
      targets: targets.map(({ agentId, hostname }) => ({ agentId, hostname })),
      skipped: skippedOf(resolved),
      warnings: warningsOf(resolved, targets),
      execute: async (index, input, signal) => {
        const flow = options.load?.begin();
        const sink = flow ? countedSink(frames, flow) : frames;
        const end = await followCommand({ ...options, agentId: routed.agentIds[index] ?? "", order, input, sink, index, signal });
        flow?.end();
        return end;
      },
    }),
  );
}

function countedSink(frames: FrameStream, flow: Flow): Pick<FrameStream, "send"> {
  return {
    send: (frame) => {
      if (frame.kind !== "control") flow.add(frame.data.length);
      return frames.send(frame);
    },
  };
}

/** The registry may have changed since the client looked: this is what counts. */
async function chooseTargets(
  options: CommandsOptions,
  backend: ColonyBackend,
  ask: CommandAsk,
  routed: RoutedCommand,
  context: ToolCallContext,
): Promise<{ resolved: ResolvedTargets; targets: TargetAgent[] }> {
  const wish = ask.targets ?? {};
  try {
    const resolved = await resolveTargets(backend, ask.command, wish, context);
    return { resolved, targets: usableTargets(resolved, wish) };
  } catch (error) {
    await options.audit?.refused(routed, error instanceof Error ? error.message : String(error));
    throw error;
  }
}

function placeOf({ where }: CommandAsk, service: string | null): CommandPlace {
  const ofService = service === null ? {} : { service };
  if (where !== undefined) return where.kind === "host" ? where : { ...ofService, ...where };
  return service === null ? { kind: "host" } : { kind: "service", service };
}

function skippedOf({ agents }: ResolvedTargets): SkippedTarget[] {
  return agents
    .filter((agent) => agent.reason !== "")
    .map(({ agentId, hostname, reason, fix }) => ({ agentId, hostname, reason, ...(fix === "" ? {} : { fix }) }));
}

/** What a person should know although it works. */
function warningsOf({ target, usable }: ResolvedTargets, targets: readonly TargetAgent[]): string[] {
  const [first] = targets;
  if (targets.length >= usable || !first) return [];
  return [`${usable} agents fit ${target}; this is ${first.hostname}; choose with --agent`];
}

function commandWords({ text, argv = [] }: CommandAsk): string {
  return text ?? argv.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(" ");
}
