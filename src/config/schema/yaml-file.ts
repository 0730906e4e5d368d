/** A YAML file with the position of each key, so that errors can point at a bad value. */

import { stat } from "node:fs/promises";
import type { Document, LineCounter, Node, Pair } from "yaml";
import { CoralError } from "../../base/errors.ts";
import { readOwned, sudoOwner } from "../../base/open-owned.ts";

/** Config files are written by hand; anything larger is the wrong file. */
const maxFileBytes = 1024 * 1024;

export interface Position {
  line: number;
  column: number;
}

export interface YamlFile {
  path: string;
  /** Plain data. Null values are dropped: `log:` with nothing under it is the same as no `log`. */
  value: unknown;
  /** Position of a key's value, or of its name with `of: "key"`; the nearest enclosing position if the key is absent. */
  positionOf(path: readonly PropertyKey[], of?: "key" | "value"): Position;
}

/** Undefined when there is no such file. `what` names it in errors: `agent config`. */
export async function readYamlFile(path: string, what: string): Promise<YamlFile | undefined> {
  const text = await readText(path, what);
  return text === undefined ? undefined : parseYaml(text, path, what);
}

async function readText(path: string, what: string): Promise<string | undefined> {
  const fail = (code: "invalid" | "not-permitted" | "internal", state: string, cause?: unknown): CoralError =>
    new CoralError({ code, message: `Cannot read ${what} "${path}": ${state}`, cause, details: { file: path } });
  let bytes: Buffer;
  try {
    const info = await stat(path);
    if (info.isDirectory()) throw fail("invalid", "it is a directory; name a file");
    if (info.size > maxFileBytes)
      throw fail("invalid", `it has ${info.size} bytes, more than the limit of ${maxFileBytes}; is it the right file?`);
    bytes = readOwned(path, sudoOwner());
  } catch (error) {
    if (error instanceof CoralError) throw error;
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    if (code === "EACCES") throw fail("not-permitted", "permission denied; check the file's owner and mode", error);
    throw fail("internal", error instanceof Error ? error.message : String(error), error);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw fail("invalid", "it is not UTF-8 text", error);
  }
}

/** The library is imported lazily: commands that read no YAML start without it. */
export async function parseYaml(text: string, path: string, what: string): Promise<YamlFile> {
  const yaml = await import("./yaml-library.ts");
  const lines = new yaml.LineCounter();
  const document = yaml.parseDocument(text, { lineCounter: lines, prettyErrors: false, stringKeys: true });
  const problem = document.errors[0] ?? document.warnings[0];
  if (problem) {
    const position = positionAt(lines, problem.pos[0]);
    throw new CoralError({
      code: "invalid",
      message: `Cannot read ${what} "${path}": line ${position.line}, column ${position.column}: ${syntaxMessage(problem.code, problem.message)}`,
      details: { file: path, problems: [{ ...position, message: syntaxMessage(problem.code, problem.message) }] },
    });
  }
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    const isUnknown = error instanceof Error && error.message.startsWith("Unresolved alias");
    const state = isUnknown ? "it uses an alias (*name) without an anchor (&name)" : "it expands too many aliases";
    throw new CoralError({
      code: "invalid",
      message: `Cannot read ${what} "${path}": ${state}`,
      cause: error,
      details: { file: path },
    });
  }
  return {
    path,
    value: withoutNulls(value),
    positionOf: (keyPath, of = "value") => positionAt(lines, offsetOf(document, yaml.isMap, keyPath, of)),
  };
}

function syntaxMessage(code: string, message: string): string {
  if (code === "TAB_AS_INDENT") return "indent with spaces, not with tabs";
  if (code === "DUPLICATE_KEY") return "duplicate key; keep one of them";
  if (code === "MULTIPLE_DOCS") return "a second document starts here; keep one";
  const sentence = message.replace(/\s+/g, " ").trim();
  return sentence.charAt(0).toLowerCase() + sentence.slice(1);
}

function positionAt(lines: LineCounter, offset: number): Position {
  const { line, col } = lines.linePos(offset);
  return { line: Math.max(1, line), column: Math.max(1, col) };
}

function offsetOf(
  document: Document.Parsed,
  isMap: typeof import("yaml").isMap,
  path: readonly PropertyKey[],
  of: "key" | "value",
): number {
  let node: Node | null | undefined = document.contents;
  let offset = startOf(node) ?? 0;
  for (const [index, segment] of path.entries()) {
    if (isMap(node)) {
      const pair = node.items.find((item) => String((item as Pair<Node, Node | null>).key) === String(segment)) as
        | Pair<Node, Node | null>
        | undefined;
      if (!pair) return offset;
      const isLast = index === path.length - 1;
      node = pair.value;
      offset = (isLast && of === "key" ? undefined : startOf(node)) ?? startOf(pair.key) ?? offset;
    } else {
      node = (node as { get?: (key: unknown, keepScalar: true) => Node } | null)?.get?.(segment, true);
      if (!node) return offset;
      offset = startOf(node) ?? offset;
    }
  }
  return offset;
}

function startOf(node: Node | null | undefined): number | undefined {
  return node?.range?.[0];
}

function withoutNulls(value: unknown): unknown {
  if (value === null) return undefined;
  if (Array.isArray(value)) return value.map((item) => (item === null ? null : withoutNulls(item)));
  if (typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).flatMap(([key, item]) => (item === null ? [] : [[key, withoutNulls(item)]])));
}
