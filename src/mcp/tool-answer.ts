import type { CallToolResult } from "@modelcontextprotocol/server";
import { CoralError } from "../base/errors.ts";
import type { Completeness } from "../tools/index.ts";
import { type BoundOptions, boundResult } from "./bound-result.ts";

/** The bounded result as structured content, and as text for other clients: completeness notes first, then the JSON. */
export function toolAnswer(result: Record<string, unknown>, options: BoundOptions): CallToolResult {
  const bounded = boundResult(result, options);
  const { nextCursor } = bounded;
  const page = nextCursor === undefined ? bounded.result : { ...bounded.result, nextCursor };
  const text = `${missingText(page["completeness"])}${cutText(bounded)}${JSON.stringify(page)}`;
  return { content: [{ type: "text", text }], structuredContent: page };
}

function missingText(completeness: unknown): string {
  const { complete, notes } = (completeness ?? { complete: true, notes: [] }) as Completeness;
  return complete ? "" : `Incomplete: ${notes.map((note) => note.message).join("; ")}\n`;
}

function cutText({ cut, nextCursor }: { cut: string; nextCursor?: string }): string {
  if (cut === "") return "";
  const fix = nextCursor === undefined ? "narrow the request" : `for the rest, repeat the call with cursor "${nextCursor}", or narrow it`;
  return `Cut: ${cut}; ${fix}\n`;
}

/** Returns a failed call as a tool result, not as a protocol error, so that the model can correct its input. */
export function failedAnswer(error: unknown): CallToolResult {
  const { code, message } = CoralError.from(error);
  return { content: [{ type: "text", text: message }], structuredContent: { error: { code, message } }, isError: true };
}
