import { describe, expect, it } from "vitest";
import * as z from "zod";
import { limitInput, sinceInput } from "./common-inputs.ts";
import { durationInput } from "./duration-input.ts";
import { inputFieldsOf } from "./input-fields.ts";

describe("inputFieldsOf()", () => {
  it("gives each field its type, bounds, choices, default and description", () => {
    const limits = { minMs: 0, maxMs: 1_000 };
    const schema = z.object({
      id: z.string().describe("an id"),
      since: sinceInput("5m"),
      step: durationInput(limits).optional(),
      least: durationInput(limits).describe("described itself"),
      limit: limitInput(50, 100),
      note: z.string().default(""),
      sort: z.enum(["a", "b"]).default("a"),
      all: z.boolean().default(false),
      agents: z.array(z.string()).optional(),
      labels: z.record(z.string(), z.string()).optional(),
    });
    expect(inputFieldsOf(schema, z.toJSONSchema(schema, { io: "input" }))).toEqual({
      id: { type: "text", description: "an id", required: true },
      since: { type: "duration", description: "how far back to look: 5m, 2h, 7d", default: "5m" },
      step: { type: "duration" },
      least: { type: "duration", description: "described itself", required: true },
      limit: { type: "integer", description: "maximum number of rows", default: 50, min: 1, max: 100 },
      note: { type: "text" },
      sort: { type: "text", choices: ["a", "b"], default: "a" },
      all: { type: "switch" },
      agents: { type: "list" },
      labels: { type: "object" },
    });
  });
});
