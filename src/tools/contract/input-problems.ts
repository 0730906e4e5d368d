import type * as z from "zod";
import { CoralError } from "../../base/errors.ts";

interface Problem {
  /** Dotted path of the field; empty for the input as a whole. */
  field: string;
  message: string;
  allowed?: unknown[];
}

/** Turns zod's issues into one error that names each field and its allowed values. */
export function describeInputProblems(tool: string, error: z.ZodError, schema: z.ZodObject, input: unknown): CoralError {
  const fields = Object.keys(schema.shape);
  const problems = error.issues.flatMap((issue) => problemsOf(issue, fields, input));
  const text = problems.map((problem) => (problem.field === "" ? problem.message : `"${problem.field}" ${problem.message}`)).join("; ");
  return new CoralError({ code: "invalid", message: `Cannot call ${tool}: ${text}`, details: { tool, problems, fields } });
}

function problemsOf(issue: z.core.$ZodIssue, fields: string[], input: unknown): Problem[] {
  const field = issue.path.map(String).join(".");
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys.map((key) => {
        const name = field === "" ? key : `${field}.${key}`;
        const known = fields.length === 0 ? "this tool takes no fields" : `the fields are ${fields.join(", ")}`;
        return { field: name, message: `is not known; ${known}`, allowed: fields };
      });
    case "invalid_value":
      return [{ field, message: `must be one of ${issue.values.map(String).join(", ")}`, allowed: [...issue.values] }];
    case "invalid_type": {
      const isMissing = field !== "" && valueAt(input, issue.path) === undefined;
      return [{ field, message: `${isMissing ? "is missing; it " : ""}must be ${article(issue.expected)}` }];
    }
    case "too_small":
      return [{ field, message: `must be at least ${issue.minimum}${unitOf(issue.origin)}` }];
    case "too_big":
      return [{ field, message: `must be at most ${issue.maximum}${unitOf(issue.origin)}` }];
    default:
      return [{ field, message: field === "" ? issue.message : `is not valid: ${issue.message}` }];
  }
}

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (typeof value === "object" && value !== null ? (value as Record<PropertyKey, unknown>)[key] : undefined),
    input,
  );
}

function article(name: string): string {
  const type = name === "int" ? "integer" : name;
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`;
}

function unitOf(origin: string): string {
  if (origin === "string") return " characters";
  return origin === "array" ? " entries" : "";
}
