/** Commands at the colony: from a client to all target agents at once, and back. */

import { randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import type { Flow } from "../../base/flow-load.ts";
import { type CommandOrder, CommandTargetSchema, type CommandTargets } from "../../proto/coral/agent/v1/commands_pb.ts";
import {
  type ColonyBackend,
  type ResolvedTargets,
  resolveTargets,
  selectorText,
  type TargetAgent,
  type ToolCallContext,
  usableTargets,
} from "../../tools/index.ts";
import {
  type CommandCall,
  orderKindOf,
  type RefusedOrder,
  routedOrder,
  runCommand,
  type SendResponse,
  throughOf,
} from "../../transport/index.ts";
import { auditedRun, type CommandCaller, type CommandsOptions, type RoutedCommand } from "../audit/routed-command.ts";
import { executeCommand, toolCallerOf } from "./execute-command.ts";
import { followCommand } from "./follow-command.ts";

export interface Commands {
  /** Runs a client's command to the end of all its agents. */
  serve(call: CommandCall, backend: ColonyBackend, caller: Omit<CommandCaller, "through" | "questionId">): Promise<void>;
  /** Records an order that breaks the protocol's limits. */
  refused(order: RefusedOrder, caller: Omit<CommandCaller, "through" | "questionId">): Promise<void>;
  execute: ColonyBackend["execute"];
  /** Records a tool's command that no agent can run. */
  refuseCommand: ColonyBackend["refuseCommand"];
}

export function createCommands(options: CommandsOptions): Commands {
  return {
    serve: (call, backend, caller) => serveCommand(options, call, backend, caller),
    refused: async ({ reason, through, ...order }, caller) => {
      const command = { ...order, caller: { ...caller, through, questionId: "" }, target: "none", agentIds: [] };
      await options.audit?.refused(command, reason);
    },
    execute: (request, context) => executeCommand(options, request, context),
    refuseCommand: async ({ target, reason, text, argv }, context) => {
      const command = { kind: "exec" as const, command: text ?? (argv ?? []).join(" "), target: target || "none", agentIds: [] };
      await options.audit?.refused({ ...command, commandId: randomUUID(), caller: toolCallerOf(context) }, reason);
    },
  };
}

async function serveCommand(
  options: CommandsOptions,
  call: CommandCall,
  backend: ColonyBackend,
  client: { name: string; from: string },
): Promise<void> {
  const { order } = call;
  const routed: RoutedCommand = {
    commandId: randomUUID(),
    kind: orderKindOf(order),
    caller: { ...client, through: throughOf(order), questionId: "" },
    target: selectorText(selectorOf(order.targets)),
    command: commandText(order),
    agentIds: [],
  };
  const { resolved, targets } = await chooseTargets(options, backend, order, routed, {
    signal: call.signal,
    caller: client.name,
    ...client,
  });
  routed.agentIds = targets.map((target) => target.agentId);
  const agentOrder = routedOrder(await withService(options, order, resolved.service), routed.commandId, client);
  await auditedRun(options, routed, () =>
    runCommand(call, {
      routed: {
        commandId: routed.commandId,
        targets: targets.map(({ agentId, hostname }) => ({ agentId, hostname })),
        skipped: skippedOf(resolved),
        warnings: warningsOf(resolved, targets),
      },
      execute: async (index, input, signal) => {
        const flow = options.load?.begin();
        const send = flow ? countedSend(call.send, flow) : call.send;
        const end = await followCommand({
          ...options,
          agentId: routed.agentIds[index] ?? "",
          order: agentOrder,
          input,
          send,
          index,
          signal,
        });
        flow?.end();
        return end;
      },
    }),
  );
}

function countedSend(send: SendResponse, flow: Flow): SendResponse {
  return (response) => {
    if (response.event.case === "output") flow.add(response.event.value.data.length);
    return send(response);
  };
}

/** The registry may have changed since the client resolved its targets: this result counts. */
async function chooseTargets(
  options: CommandsOptions,
  backend: ColonyBackend,
  order: CommandOrder,
  routed: RoutedCommand,
  context: ToolCallContext,
): Promise<{ resolved: ResolvedTargets; targets: TargetAgent[] }> {
  const selector = selectorOf(order.targets);
  try {
    const resolved = await resolveTargets(backend, routed.kind, selector, context);
    return { resolved, targets: usableTargets(resolved, selector) };
  } catch (error) {
    await options.audit?.refused(routed, error instanceof Error ? error.message : String(error));
    throw error;
  }
}

/** Protobuf has no absent strings and lists; tools expect absent ones where nothing was given. */
function selectorOf(targets: CommandTargets | undefined): Parameters<typeof selectorText>[0] {
  if (!targets) return {};
  const { agents, service, labels, environment, all, one } = targets;
  return {
    ...(agents.length > 0 ? { agents } : {}),
    ...(service === "" ? {} : { service }),
    ...(Object.keys(labels).length > 0 ? { labels } : {}),
    ...(environment === "" ? {} : { environment }),
    ...(all ? { all } : {}),
    ...(one ? { one } : {}),
  };
}

/** The order with its location at the agent: inside the selected service, unless the client gave another one. */
async function withService(
  { serviceId = (name) => Promise.resolve(name) }: CommandsOptions,
  order: CommandOrder,
  service: string | null,
): Promise<CommandOrder> {
  if (service === null || order.target?.kind === "host") return order;
  const target = order.target ?? create(CommandTargetSchema, { kind: "service" });
  target.service = await serviceId(target.service === "" ? service : target.service);
  return { ...order, target };
}

function skippedOf({ agents }: ResolvedTargets) {
  return agents.filter((agent) => agent.reason !== "").map(({ agentId, hostname, reason, fix }) => ({ agentId, hostname, reason, fix }));
}

function warningsOf({ target, usable }: ResolvedTargets, targets: readonly TargetAgent[]): string[] {
  const [first] = targets;
  if (targets.length >= usable || !first) return [];
  return [`${usable} agents match ${target}; using ${first.hostname}; choose another with --agent`];
}

function commandText({ text, argv }: CommandOrder): string {
  if (text !== "") return text;
  return argv.map((arg) => (/^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", `'\\''`)}'`)).join(" ");
}
