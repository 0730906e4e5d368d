/** Runs commands for tools: no input, bounded output, one answer when all agents have ended. */

import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import { create } from "@bufbuild/protobuf";
import { CoralError } from "../../base/errors.ts";
import { given } from "../../base/given.ts";
import { type CommandEnded, CommandOrderSchema, type ExecuteResponse } from "../../proto/coral/agent/v1/commands_pb.ts";
import type { CommandOutcome, CommandRequest, CommandResult, ToolCallContext } from "../../tools/index.ts";
import { brokenEnd, CommandInput, endReasonOf } from "../../transport/index.ts";
import { auditedRun, type CommandCaller, type CommandsOptions, type RoutedCommand } from "../audit/routed-command.ts";
import { followCommand } from "./follow-command.ts";

/** Output at which an agent ends the command, however little of it is returned. */
const maxAgentOutputBytes = 8 * 1024 * 1024;
/** Extra time for an agent to report the timeout itself. */
const graceMs = 5_000;

export function toolCallerOf({ caller = "", from = "", through = "http", questionId = "" }: ToolCallContext): CommandCaller {
  return { name: caller, from, through, questionId };
}

export async function executeCommand(options: CommandsOptions, request: CommandRequest, context: ToolCallContext): Promise<CommandResult> {
  const commandId = randomUUID();
  const caller = toolCallerOf(context);
  const { agents, where, timeoutMs, readOnly, argv, text, workingDirectory } = request;
  const order = create(CommandOrderSchema, {
    commandId,
    kind: "exec",
    target: where.service === undefined ? where : { ...where, service: (await options.serviceId?.(where.service)) ?? where.service },
    caller,
    timeoutMs: BigInt(timeoutMs),
    readOnly,
    maxOutputBytes: BigInt(maxAgentOutputBytes),
    ...given({ argv, text, workingDirectory }),
  });
  const routed: RoutedCommand = {
    commandId,
    kind: "exec",
    caller,
    target:
      where.kind === "host"
        ? `agents ${agents.map((agent) => agent.hostname).join(", ")}`
        : `${where.kind} ${where.service ?? where.container ?? ""}`,
    command: text ?? (argv ?? []).join(" "),
    agentIds: agents.map((agent) => agent.agentId),
  };
  const input = new CommandInput(agents.length, () => undefined);
  input.end();
  const deadline = AbortSignal.timeout(timeoutMs + graceMs);
  const signal = AbortSignal.any([context.signal, deadline]);
  // The call to each agent adds a listener.
  setMaxListeners(0, signal);
  const sinks = agents.map(() => new OutcomeSink(request.maxOutputBytes));
  const ends = await auditedRun(options, routed, () =>
    Promise.all(
      input.targets.map(async (own, index) => {
        const sink = sinks[index] ?? new OutcomeSink(0);
        const end = await followCommand({
          ...options,
          agentId: agents[index]?.agentId ?? "",
          order,
          input: own,
          send: sink.send,
          index,
          signal,
        });
        own.close();
        return end.reason === "cancelled" && deadline.aborted ? sink.lateEnd(timeoutMs) : end;
      }),
    ),
  );
  if (context.signal.aborted) throw new CoralError({ code: "cancelled", message: "Cannot return the result: the caller has disconnected" });
  return { commandId, outcomes: agents.map((agent, index) => outcomeOf(agent, ends[index], sinks[index])) };
}

/** Keeps the first bytes of an agent's output and counts the rest. */
class OutcomeSink {
  readonly stdout: Buffer[] = [];
  readonly stderr: Buffer[] = [];
  where = "";
  user = "";
  cutBytes = 0;
  /** What to do about a command that needs approval; empty for others. */
  approval = "";
  #leftBytes: number;

  constructor(maxBytes: number) {
    this.#leftBytes = maxBytes;
  }

  readonly send = ({ event }: ExecuteResponse): Promise<boolean> => {
    if (event.case === "output") {
      const { stream, data } = event.value;
      const kept = data.subarray(0, this.#leftBytes);
      this.#leftBytes -= kept.length;
      this.cutBytes += data.length - kept.length;
      if (kept.length > 0) this[stream === "stderr" ? "stderr" : "stdout"].push(Buffer.from(kept));
    } else if (event.case === "started") {
      this.where = event.value.where;
      this.user = event.value.user;
      this.approval = "";
    } else if (event.case === "approvalNeeded") {
      // Without the id: an approval covers one command, and this one is over when the message is shown.
      this.approval = `rule "${event.value.rule}" requires approval, and none came in time; run it again, and approve it while it waits (coral approval list)`;
    }
    return Promise.resolve(true);
  };

  /** End of an agent that reported none in time. */
  lateEnd(timeoutMs: number): CommandEnded & { isHeld?: boolean } {
    if (this.approval !== "") return { ...brokenEnd("cancelled", "not-permitted", this.approval), isHeld: true };
    return brokenEnd("timeout", "timeout", `no result within ${timeoutMs} ms`);
  }
}

function outcomeOf(agent: CommandRequest["agents"][number], end: CommandEnded | undefined, sink: OutcomeSink | undefined): CommandOutcome {
  const ended: CommandEnded & { isHeld?: boolean } = end ?? brokenEnd("failed", "internal", "");
  const { exitCode, signal, problem, code, rule, durationMs } = ended;
  const reason = endReasonOf(ended);
  return {
    ...agent,
    reason: ended.isHeld ? "approval-needed" : reason,
    exitCode: reason === "exited" ? exitCode : null,
    signal,
    problem,
    code,
    rule,
    where: sink?.where ?? "",
    user: sink?.user ?? "",
    stdout: Buffer.concat(sink?.stdout ?? []).toString("utf8"),
    stderr: Buffer.concat(sink?.stderr ?? []).toString("utf8"),
    cutBytes: sink?.cutBytes ?? 0,
    durationMs: Number(durationMs),
  };
}
