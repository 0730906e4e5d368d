import { describe, expect, it, vi } from "vitest";
import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { defineTool, permits, type ToolResult } from "./define-tool.ts";
import { durationInput } from "./duration-input.ts";

type Handle = (
  backend: null,
  input: { since: number; kind: string; limit: number },
) => Promise<ToolResult<{ seen: string; hidden: string }>>;

const handle = vi.fn<Handle>(async (_backend, input) => ({
  output: { seen: `${input.kind} ${input.since} ${input.limit}`, hidden: "not in the schema" },
  completeness: completenessOf([]),
}));

const tool = defineTool({
  name: "coral_test_thing",
  title: "Test",
  description: "A test.",
  input: z.object({
    since: durationInput({ minMs: 1_000, maxMs: 3_600_000 }).prefault("5m"),
    kind: z.enum(["a", "b"]).default("a"),
    limit: z.int().min(1).max(10).default(5),
  }),
  output: z.object({ seen: z.string() }),
  permission: "read",
  changes: false,
  handle,
});

const context = { signal: new AbortController().signal };

async function failure(input: unknown): Promise<CoralError> {
  const error: unknown = await tool.call(null, input, context).then(
    () => undefined,
    (problem: unknown) => problem,
  );
  if (error instanceof CoralError) return error;
  throw new Error(`expected a CoralError, got ${String(error)}`);
}

describe("defineTool()", () => {
  it("fills defaults, gives durations in milliseconds, and adds completeness", async () => {
    expect(await tool.call(null, {}, context)).toEqual({ seen: "a 300000 5", completeness: { complete: true, notes: [] } });
    expect(await tool.call(null, undefined, context)).toMatchObject({ seen: "a 300000 5" });
    expect(await tool.call(null, { since: "1h", kind: "b", limit: 10 }, context)).toMatchObject({ seen: "b 3600000 10" });
  });

  it.each([
    [{ sinse: "5m" }, '"sinse" is not known; the fields are since, kind, limit'],
    [{ kind: "c" }, '"kind" must be one of a, b'],
    [{ limit: 11 }, '"limit" must be at most 10'],
    [{ limit: 0 }, '"limit" must be at least 1'],
    [{ limit: "five" }, '"limit" must be a number'],
    [{ limit: 1.5 }, '"limit" must be an integer'],
    [{ since: 5 }, '"since" must be a string'],
    [{ since: "5" }, '"since" is not valid: Cannot read duration "5"'],
    [{ since: "2h" }, "it must be between 1s and 1h"],
    [[], "must be an object"],
    ["x", "must be an object"],
  ])("rejects %j and names what is allowed", async (input, text) => {
    handle.mockClear();
    const error = await failure(input);
    expect(error.code).toBe("invalid");
    expect(error.message).toContain(text);
    expect(error.message).toMatch(/^Cannot call coral_test_thing: /);
    expect(handle).not.toHaveBeenCalled();
  });

  it("names every problem at once", async () => {
    const error = await failure({ kind: "c", limit: 11, more: 1 });
    expect(error.details["problems"]).toHaveLength(3);
  });

  it("rejects an answer that does not match its schema", async () => {
    handle.mockResolvedValueOnce({ output: { seen: 5 as unknown as string, hidden: "" }, completeness: completenessOf([]) });
    const error = await failure({});
    expect(error.code).toBe("internal");
    expect(error.message).toContain("seen");
  });

  it("does not start a cancelled call", async () => {
    handle.mockClear();
    await expect(tool.call(null, {}, { signal: AbortSignal.abort() })).rejects.toThrow();
    expect(handle).not.toHaveBeenCalled();
  });

  it("generates JSON schemas for callers", () => {
    expect(tool.inputJsonSchema).toMatchObject({
      type: "object",
      additionalProperties: false,
      properties: { since: { type: "string", default: "5m" }, kind: { enum: ["a", "b"] }, limit: { type: "integer", maximum: 10 } },
    });
    expect(tool.inputJsonSchema["required"]).toBeUndefined();
    expect(tool.outputJsonSchema).toMatchObject({ required: ["seen", "completeness"] });
  });

  it("rejects a malformed name", () => {
    expect(() => defineTool({ ...({} as Parameters<typeof defineTool>[0]), name: "thing" })).toThrow("coral_<verb>_<noun>");
  });
});

describe("permits()", () => {
  it("includes the weaker permissions", () => {
    expect(permits("admin", "read")).toBe(true);
    expect(permits("exec", "debug")).toBe(true);
    expect(permits("read", "read")).toBe(true);
    expect(permits("read", "debug")).toBe(false);
    expect(permits("exec", "admin")).toBe(false);
  });
});
