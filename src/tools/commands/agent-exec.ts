import * as z from "zod";
import { CoralError, isErrorCode } from "../../base/errors.ts";
import { given } from "../../base/given.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool, type ToolCallContext } from "../contract/define-tool.ts";
import { durationInput } from "../contract/duration-input.ts";
import { type CommandOutcome, commandResultSchema, type ResolvedTargets, type TargetAgent } from "../schemas/command.ts";
import { type CompletenessNote, completenessOf } from "../schemas/completeness.ts";
import { resolveTargets, selectorText, usableTargets } from "./command-targets.ts";
import { selectorOf, targetFields } from "./resolve-targets.ts";

/** Every byte lands in a model's context, so output is capped; people stream with coral exec. */
const maxOutputBytes = 256 * 1024;
const maxAgents = 50;

export const agentExec = defineTool({
  name: "coral_agent_exec",
  title: "Run a command on agents",
  description:
    "Run a diagnostic command (ps, ss, df, dmesg, curl -I, pipelines of them) on hosts or inside a service's namespaces; returns output and exit code per agent. The agent's policy decides and everything is audited; readOnly (default) allows only commands that change nothing. No shell: no $VAR, globs or redirections.",
  input: z.object({
    ...targetFields,
    command: z.string().min(1).max(16_384).optional().describe("a pipeline: ps aux | head -20"),
    argv: z.array(z.string()).min(1).max(500).optional().describe("instead of command: one program and its arguments, verbatim"),
    container: z.string().min(1).optional().describe("name or id; run inside it"),
    onHost: z.boolean().default(false).describe("with service: on its host instead of inside it"),
    workingDirectory: z.string().min(1).optional(),
    timeout: durationInput({ minMs: 100, maxMs: 60_000 }).prefault("20s").describe("at most 60s"),
    maxOutputBytes: z.int().min(0).max(maxOutputBytes).default(16_384).describe("of each agent"),
    readOnly: z.boolean().default(true),
  }),
  output: commandResultSchema,
  permission: "exec",
  changes: true,
  handle: async (backend: ColonyBackend, input, context) => {
    if ((input.command === undefined) === (input.argv === undefined))
      throw new CoralError({ code: "invalid", message: 'Cannot run a command: pass either "command" or "argv"' });
    const { resolved, usable } = await chooseTargets(backend, input, context);
    const result = await backend.execute(
      {
        ...given({ text: input.command, argv: input.argv }),
        agents: usable.map(({ agentId, hostname }) => ({ agentId, hostname })),
        where: placeOf(resolved.service, input.container, input.onHost),
        ...(input.workingDirectory === undefined ? {} : { workingDirectory: input.workingDirectory }),
        timeoutMs: input.timeout,
        maxOutputBytes: input.maxOutputBytes,
        readOnly: input.readOnly,
      },
      context,
    );
    throwWhenAllRefused(result.outcomes);
    const skipped = resolved.agents.filter((agent) => agent.reason !== "");
    return { output: result, completeness: completenessOf([...skipped.map(skipNote), ...result.outcomes.flatMap(outcomeNotes)]) };
  },
});

/** Audits a command even when no agent gets it: the attempt itself is worth a record. */
async function chooseTargets(
  backend: ColonyBackend,
  input: Parameters<typeof selectorOf>[0] & { command?: string | undefined; argv?: string[] | undefined },
  context: ToolCallContext,
): Promise<{ resolved: ResolvedTargets; usable: TargetAgent[] }> {
  const selector = selectorOf(input);
  try {
    const resolved = await resolveTargets(backend, "exec", selector, context);
    const usable = usableTargets(resolved, {});
    if (usable.length <= maxAgents) return { resolved, usable };
    throw new CoralError({
      code: "exhausted",
      message: `Cannot run a command at "${resolved.target}": ${usable.length} agents match and one call reaches at most ${maxAgents}; select fewer`,
    });
  } catch (error) {
    const refusal = { target: selectorText(selector), reason: CoralError.from(error).message };
    await backend.refuseCommand({ ...given({ text: input.command, argv: input.argv }), ...refusal }, context);
    throw error;
  }
}

/** Where the agent runs it: in the named container, else inside the service, else on the host. */
export function placeOf(service: string | null, container: string | undefined, onHost: boolean) {
  const ofService = service === null ? {} : { service };
  if (container !== undefined) return { kind: "container" as const, container, ...ofService };
  return service === null || onHost ? { kind: "host" as const } : { kind: "service" as const, ...ofService };
}

/** When no agent ran the command, the call fails with the first agent's problem. */
function throwWhenAllRefused(outcomes: readonly CommandOutcome[]): void {
  const [first] = outcomes;
  const isRefused = outcomes.every((outcome) => outcome.reason === "denied" || outcome.reason === "failed" || outcome.reason === "lost");
  if (!first || !isRefused) return;
  throw new CoralError({
    code: first.reason === "denied" ? "not-permitted" : isErrorCode(first.code) ? first.code : "unavailable",
    message: first.problem || `Cannot run the command at ${first.hostname}: ${first.reason}`,
    details: { outcomes: outcomes.slice(0, 20).map(({ hostname, reason, problem, rule }) => ({ hostname, reason, problem, rule })) },
  });
}

function skipNote(agent: TargetAgent): CompletenessNote {
  return { kind: "unavailable", agent: agent.agentId, message: `${agent.hostname} was skipped: ${agent.reason}` };
}

function outcomeNotes(outcome: CommandOutcome): CompletenessNote[] {
  const { agentId: agent, hostname } = outcome;
  const notes: CompletenessNote[] = [];
  if (outcome.cutBytes > 0) {
    const message = `${outcome.cutBytes} bytes of output from ${hostname} are not shown; raise maxOutputBytes or narrow the command`;
    notes.push({ kind: "limit", agent, message });
  }
  if (["denied", "failed", "lost", "timeout"].includes(outcome.reason))
    notes.push({ kind: "unavailable", agent, message: `${hostname}: ${outcome.problem || outcome.reason}` });
  if (outcome.reason === "approval-needed") notes.push({ kind: "unavailable", agent, message: `${hostname}: ${outcome.problem}` });
  return notes;
}
