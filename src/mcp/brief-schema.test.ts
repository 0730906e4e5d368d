import { describe, expect, it } from "vitest";
import { briefSchema, commonInstructions } from "./brief-schema.ts";

describe("briefSchema()", () => {
  it("leaves bounds out, at every depth, and keeps what tells how to call", () => {
    const schema = {
      $schema: "x",
      type: "object",
      properties: {
        since: { type: "string", minLength: 1, default: "5m", description: "how far back" },
        labels: {
          type: "array",
          items: { type: "object", properties: { key: { type: "string", pattern: "a" } }, additionalProperties: false },
        },
      },
      required: ["since"],
      additionalProperties: false,
    };
    expect(briefSchema(schema)).toEqual({
      type: "object",
      properties: {
        since: { type: "string", default: "5m", description: "how far back" },
        labels: { type: "array", items: { type: "object", properties: { key: { type: "string" } } } },
      },
      required: ["since"],
    });
  });

  it("leaves out what all tools have in common, and what goes without saying", () => {
    const since = { type: "string", default: "5m", description: "how far back: 5m, 2h, 7d" };
    const agent = { type: "string", description: "agent id or host name: its own spans" };
    const by = { type: "string", enum: ["route", "peer"] };
    expect(briefSchema({ properties: { since, agent, by, all: { type: "boolean", default: false } } })).toEqual({
      properties: { since: { type: "string", default: "5m" }, agent, by: { enum: ["route", "peer"] }, all: { type: "boolean" } },
    });
    expect(commonInstructions).toContain("`since`: how far back");
  });

  it("keeps a property that is called like a bound", () => {
    expect(briefSchema({ properties: { pattern: { type: "string" }, minimum: { type: "integer", minimum: 1 } } })).toEqual({
      properties: { pattern: { type: "string" }, minimum: { type: "integer" } },
    });
  });
});
