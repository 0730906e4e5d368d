import * as z from "zod";
import { given } from "../../base/given.ts";
import type { ProfileFacts, ProfileRequest } from "../../model/profiles.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { agentInput, sinceInput } from "../contract/common-inputs.ts";
import { defineTool, type ToolCallContext } from "../contract/define-tool.ts";
import { durationInput } from "../contract/duration-input.ts";
import { chooseAgents } from "../contract/match-agents.ts";
import { missingNotes } from "../contract/missing-data.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import { type CompletenessNote, completenessOf } from "../schemas/completeness.ts";
import { profileResultSchema } from "../schemas/profile.ts";
import { findService } from "../services/find-service.ts";
import { foldedStacks, functionsOf, qualityOf, treeOf } from "./profile-functions.ts";

const dayMs = 86_400_000;
/** With fewer samples shares are coarse: one in fifty is 2 percentage points. */
const fewSamples = 50;
const maxTreeLines = 2_000;
/** Below these shares of complete stacks and named frames the answer carries a note. */
const wholeEnough = 0.9;
const namedEnough = 0.8;

export const profileFunctions = defineTool({
  name: "coral_profile_functions",
  title: "CPU profile",
  description:
    "Show which functions of a service use the CPU, from continuous sampling: share by function, or call tree. With baseline: what changed since an earlier time.",
  input: z.object({
    service: z.string().min(1).describe("a service, or a process name"),
    since: sinceInput("10m", { maxMs: 7 * dayMs }),
    baseline: durationInput({ minMs: 10_000, maxMs: 7 * dayMs })
      .optional()
      .describe("compare with the same length of time that ended this long ago: 10m, 1d"),
    tree: z.boolean().default(false).describe("include the call tree"),
    stacks: z.boolean().default(false).describe("include every stack with its samples"),
    thread: z.string().min(1).max(64).optional().describe("only threads of this name"),
    sort: z.enum(["self", "total", "change"]).optional().describe("order of functions; default: self, or change with a baseline"),
    agent: agentInput(),
    limit: z.int().min(1).max(1_000).default(25).describe("maximum number of functions"),
  }),
  output: profileResultSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const { agents, chosen, which } = await chooseAgents(backend, input.agent, context);
    const request: ProfileRequest = {
      service: input.service,
      sinceMs: input.since,
      ...given({ baselineMs: input.baseline, thread: input.thread }),
      ...which,
    };
    const { service, facts } = await readProfile(backend, request, context);
    const hasBaseline = input.baseline !== undefined;
    const functions = functionsOf(facts, hasBaseline, input.sort ?? (hasBaseline ? "change" : "self"));
    const quality = qualityOf(facts);
    const scope = { agents: chosen ?? agents, which, signals: ["profile", "profile_stack"], kept: ["profile"], sinceMs: input.since };
    const notes = await missingNotes(backend, scope, context);
    const coveredMs = facts.fromMs === null || facts.untilMs === null ? 0 : Math.min(input.since, facts.untilMs - facts.fromMs);
    return {
      output: {
        service,
        sinceMs: input.since,
        coveredMs,
        baselineMs: input.baseline ?? null,
        samples: facts.samples,
        samplesBefore: facts.samplesBefore,
        cores: coveredMs === 0 ? null : facts.cpuUs / 1_000 / coveredMs,
        coresBefore: facts.samplesBefore === 0 ? null : facts.cpuUsBefore / 1_000 / input.since,
        instances: facts.instances,
        ...quality,
        functions: functions.slice(0, input.limit),
        functionsTotal: functions.length,
        tree: input.tree ? treeOf(facts, hasBaseline, maxTreeLines) : [],
        stacks: input.stacks ? foldedStacks(facts) : [],
      },
      completeness: completenessOf([...notes, ...profileNotes(facts, quality, chosen ?? agents, hasBaseline)]),
    };
  },
});

/** No samples: the name may differ in case, or be part of one. */
async function readProfile(
  backend: ColonyBackend,
  request: ProfileRequest,
  context: ToolCallContext,
): Promise<{ service: string; facts: ProfileFacts }> {
  const facts = await backend.profile(request, context);
  if (facts.samples + facts.samplesBefore > 0) return { service: request.service, facts };
  const service = await findService(backend, request.service, context);
  return { service, facts: service === request.service ? facts : await backend.profile({ ...request, service }, context) };
}

const lossTexts: Readonly<Record<string, (count: number) => string>> = {
  "ring-full": (count) => `${count} samples of these hosts dropped: the ring buffer was full`,
  "stacks-full": (count) => `${count} samples of these hosts dropped: more distinct stacks than profiles.max_stacks`,
  "paused-seconds": (count) => `sampling paused for ${count} s to stay within profiles.cpu_budget`,
  "away-seconds": (count) => `no samples for ${count} s: the profile process was restarting`,
};

function profileNotes(
  facts: ProfileFacts,
  { whole, named }: { whole: number; named: number },
  agents: readonly AgentInfo[],
  hasBaseline: boolean,
): CompletenessNote[] {
  const notes = facts.losses.map(
    ({ loss, count }): CompletenessNote => ({ kind: "rows-lost", message: lossTexts[loss]?.(count) ?? `${count} lost: ${loss}` }),
  );
  for (const { hostname, capabilities } of agents) {
    const missing = capabilities.find(({ name, available }) => name === "cpu-profile" && !available);
    if (missing !== undefined) notes.push({ kind: "unavailable", message: `${hostname} takes no CPU profiles: ${missing.reason}` });
  }
  const percent = (share: number): string => `${Math.round(share * 100)}%`;
  if (facts.samples === 0)
    return [
      ...notes,
      { kind: "no-data", message: "no CPU samples in this time: the service was idle, or no agent with CPU profiles runs it" },
    ];
  if (facts.samples < fewSamples) notes.push({ kind: "sampled", message: `only ${facts.samples} samples: shares are coarse; widen since` });
  if (hasBaseline && facts.samplesBefore === 0) notes.push({ kind: "no-data", message: "no samples in the baseline: changes are unknown" });
  if (whole < wholeEnough)
    notes.push({
      kind: "unattributed",
      message: `${percent(1 - whole)} of the samples have a truncated stack: outer callers are missing`,
    });
  if (named < namedEnough)
    notes.push({
      kind: "unattributed",
      message: `${percent(1 - named)} of the frames have no name: the program is stripped, or generates code at run time`,
    });
  return notes;
}
