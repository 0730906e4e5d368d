import { describe, expect, it } from "vitest";
import { briefSchema } from "./brief-schema.ts";

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

  it("keeps a property that is called like a bound", () => {
    expect(briefSchema({ properties: { pattern: { type: "string" }, minimum: { type: "integer", minimum: 1 } } })).toEqual({
      properties: { pattern: { type: "string" }, minimum: { type: "integer" } },
    });
  });
});
