import type { CallToolResult } from "@modelcontextprotocol/server";
import { CoralError } from "../base/errors.ts";
import type { Completeness } from "../tools/index.ts";

/** Characters of text beside the structured result: some clients show only that to the model, and its context is small. */
const textMaxLength = 24_000;

/** The result as structured content, and as text for clients that read nothing else: what is missing first, then the JSON. */
export function toolAnswer(result: Record<string, unknown>): CallToolResult {
  const json = JSON.stringify(result);
  const text =
    json.length <= textMaxLength
      ? json
      : `${json.slice(0, textMaxLength)}\n… cut at ${textMaxLength} of ${json.length} characters; narrow the question`;
  return { content: [{ type: "text", text: `${missingText(result["completeness"])}${text}` }], structuredContent: result };
}

function missingText(completeness: unknown): string {
  const { complete, notes } = (completeness ?? { complete: true, notes: [] }) as Completeness;
  return complete ? "" : `Incomplete: ${notes.map((note) => note.message).join("; ")}\n`;
}

/** A failed call is an answer to the model, which can then mend its input, and not a failure of the protocol. */
export function failedAnswer(error: unknown): CallToolResult {
  const { code, message } = CoralError.from(error);
  return { content: [{ type: "text", text: message }], structuredContent: { error: { code, message } }, isError: true };
}
