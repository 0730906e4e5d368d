/** `label_replace` on DuckDB's regular expressions, which are RE2 as in Prometheus and take linear time. */

import { CoralError } from "../../../base/errors.ts";
import { type Queryable, textOrNullIn } from "../../tables/queryable.ts";

/** Limit on distinct groups in one replacement. Each becomes a column of the query. */
const maxGroups = 20;
const maxRemembered = 100_000;

export class LabelReplacer {
  readonly #store: Queryable;
  /**
   * Results by pattern and replacement, then by label value; null where the pattern does not match. The same values repeat at every step.
   */
  readonly #known = new Map<string, Map<string, string | null>>();
  #remembered = 0;

  constructor(store: Queryable) {
    this.#store = store;
  }

  /** The replacement for each text; null where the pattern does not match the whole text. */
  async replace(texts: readonly string[], pattern: string, replacement: string): Promise<(string | null)[]> {
    const key = JSON.stringify([pattern, replacement]);
    let known = this.#known.get(key);
    if (known === undefined) {
      known = new Map();
      this.#known.set(key, known);
    }
    const missing = [...new Set(texts)].filter((text) => !known.has(text));
    if (missing.length > 0) {
      this.#remembered += missing.length;
      if (this.#remembered > maxRemembered)
        throw new CoralError({
          code: "exhausted",
          message: "Cannot evaluate label_replace(): too many different label values; aggregate first",
        });
      await this.#ask(missing, pattern, replacement, known);
    }
    return texts.map((text) => known.get(text) ?? null);
  }

  async #ask(texts: readonly string[], pattern: string, replacement: string, known: Map<string, string | null>): Promise<void> {
    const parts = replacementParts(replacement, groupNames(pattern));
    const groups = [...new Set(parts.flatMap((part) => (typeof part === "number" ? [part] : [])))];
    if (groups.length > maxGroups)
      throw new CoralError({
        code: "invalid",
        message: `Cannot evaluate label_replace(): more than ${maxGroups} groups in the replacement`,
      });
    const whole = `^(?s:${pattern})$`;
    // DuckDB requires constant group numbers. They are our own integers, so inlining them is safe.
    const columns = groups.map((group) => `, regexp_extract(text, ?, ${group}) AS g${group}`).join("");
    try {
      const rows = await this.#store.query(
        `SELECT text, regexp_matches(text, ?) AS fits${columns} FROM (SELECT unnest(from_json(?, '["VARCHAR"]')) AS text)`,
        [whole, ...groups.map(() => whole), JSON.stringify(texts)],
      );
      for (const row of rows) {
        const text = textOrNullIn(row, "text") ?? "";
        const value = parts.map((part) => (typeof part === "number" ? (textOrNullIn(row, `g${part}`) ?? "") : part)).join("");
        known.set(text, row["fits"] === true ? value : null);
      }
    } catch (error) {
      const { message } = CoralError.from(error);
      throw new CoralError({ code: "invalid", message: `Cannot use the regular expression "${pattern}": ${message}`, cause: error });
    }
  }
}

/** Names of the capturing groups by number; index 0 is the whole match. */
export function groupNames(pattern: string): string[] {
  const names = [""];
  let isClass = false;
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern[at];
    if (char === "\\") at++;
    else if (isClass) isClass = char !== "]";
    else if (char === "[") {
      isClass = true;
      // A `]` directly after `[` or `[^` is a literal member of the class.
      if (pattern[at + 1] === "^") at++;
      if (pattern[at + 1] === "]") at++;
    } else if (char === "(") {
      const name = /^\(\?P?<(\w+)>/.exec(pattern.slice(at))?.[1];
      if (name !== undefined || pattern[at + 1] !== "?") names.push(name ?? "");
    }
  }
  return names;
}

/** Literal texts and group numbers of a replacement, by Go's rules: `$1`, `${1}`, `$name`, `$$`. Unknown groups expand to nothing. */
export function replacementParts(replacement: string, names: readonly string[]): (string | number)[] {
  const parts: (string | number)[] = [];
  let from = 0;
  for (const match of replacement.matchAll(/\$(?:(\$)|\{(\w+)\}|(\w+))/g)) {
    parts.push(replacement.slice(from, match.index));
    from = match.index + match[0].length;
    const [, dollar, braced, bare] = match;
    const name = braced ?? bare ?? "";
    if (dollar !== undefined) parts.push("$");
    else if (/^\d+$/.test(name)) parts.push(...(Number(name) < names.length ? [Number(name)] : []));
    else parts.push(...(names.indexOf(name) > 0 ? [names.indexOf(name)] : []));
  }
  parts.push(replacement.slice(from));
  return parts.filter((part) => part !== "");
}
