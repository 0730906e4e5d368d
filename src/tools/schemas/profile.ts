import * as z from "zod";
import { frameKinds } from "../../model/profiles.ts";

const share = (what: string) => z.number().describe(`${what}, 0..1 of the CPU samples`);
const kindSchema = z.enum(frameKinds).describe("language of the function");

/** One function, over all callers. */
const profileFunctionSchema = z.object({
  name: z.string().describe("`nginx+0x70810` when the file has no symbols: its offset, stable for one build"),
  file: z.string().describe("executable or library; script of an interpreted function; empty for the kernel"),
  kind: kindSchema,
  self: share("on top of the stack"),
  total: share("anywhere on the stack"),
  cpuMs: z.number().describe("CPU time on top of the stack"),
  before: z
    .object({ self: share("in the baseline"), total: share("in the baseline") })
    .nullable()
    .describe("null without a baseline"),
  change: z.number().nullable().describe("of `total` against the baseline, as a difference of shares"),
  significant: z.boolean().describe("the change is larger than chance (99.7%)"),
});
export type ProfileFunction = z.infer<typeof profileFunctionSchema>;

/** A line of the tree: callees follow their caller, most CPU first. */
const profileNodeSchema = z.object({
  depth: z.number(),
  name: z.string(),
  file: z.string(),
  kind: kindSchema,
  total: share("of this call path"),
  self: share("on top of the stack"),
  change: z.number().nullable().describe("of `total` against the baseline"),
});
export type ProfileNode = z.infer<typeof profileNodeSchema>;

/** Output of coral_profile_functions. */
export const profileResultSchema = z.object({
  service: z.string(),
  sinceMs: z.number(),
  coveredMs: z.number().describe("the time range that has samples"),
  baselineMs: z.number().nullable(),
  samples: z.number(),
  samplesBefore: z.number(),
  cores: z.number().nullable().describe("mean CPU use; 1 is one core"),
  coresBefore: z.number().nullable(),
  instances: z.number(),
  whole: share("complete stacks, which reach the start of the program or thread"),
  named: share("frames with a name"),
  functions: z.array(profileFunctionSchema),
  functionsTotal: z.number(),
  tree: z.array(profileNodeSchema).describe("empty unless requested"),
  stacks: z.array(z.object({ frames: z.array(z.string()), samples: z.number() })).describe("empty unless requested"),
});
export type ProfileResult = z.infer<typeof profileResultSchema>;
