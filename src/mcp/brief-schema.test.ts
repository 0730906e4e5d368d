import { describe, expect, it } from "vitest";
import { briefSchema, commonInstructions } from "./brief-schema.ts";

describe("briefSchema()", () => {
  it("drops bounds at every depth and keeps what a call needs", () => {
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

  it("drops common descriptions and whatever choices and defaults imply", () => {
    const since = { type: "string", default: "5m", description: "how far back to look: 5m, 2h, 7d" };
    const agent = { type: "string", description: "agent id or host name: its own spans" };
    const by = { type: "string", enum: ["route", "peer"] };
    expect(briefSchema({ properties: { since, agent, by, all: { type: "boolean", default: false } } })).toEqual({
      properties: { since: { type: "string", default: "5m" }, agent, by: { enum: ["route", "peer"] }, all: { type: "boolean" } },
    });
    expect(commonInstructions).toContain("`since`: how far back");
  });

  it("keeps a property named like a keyword", () => {
    expect(briefSchema({ properties: { pattern: { type: "string" }, minimum: { type: "integer", minimum: 1 } } })).toEqual({
      properties: { pattern: { type: "string" }, minimum: { type: "integer" } },
    });
  });
});
