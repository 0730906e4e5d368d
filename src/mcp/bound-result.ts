/**
 * Bounds a tool's result for a model: truncates lists between items and returns a cursor for the rest. No state is kept between
 * calls: the next page repeats the same call and skips the items of earlier pages.
 */

import { CoralError } from "../base/errors.ts";
import { isJsonObject } from "../base/exact-json.ts";

/** Limit in characters of JSON, all of which enter the model's context. */
const maxLength = 24_000;
/** Reserved for a note, the cursor and field names. */
const reserveLength = 1_500;
/** Maximum length of a string in an oversized result. */
const maxTextLength = 2_000;

export interface BoundedResult {
  result: Record<string, unknown>;
  /** Cursor for the next page; absent at the end, and when the call must not be repeated. */
  nextCursor?: string;
  /** What was truncated, ready to print; empty when nothing was. */
  cut: string;
}

export interface BoundOptions {
  /** Cursor of the previous page; undefined: the first page. */
  cursor?: string | undefined;
  /** Whether the call may be repeated for further pages. */
  isRepeatable: boolean;
}

/** Items on earlier pages, by path of the list. */
type Offsets = Record<string, number>;

export function boundResult(result: Record<string, unknown>, { cursor, isRepeatable }: BoundOptions): BoundedResult {
  const offsets = cursor === undefined ? {} : parseCursor(cursor);
  if (cursor === undefined && lengthOf(result) <= maxLength) return { result, cut: "" };
  // Completeness notes are short and belong on every page.
  const { completeness, ...rest } = result;
  const texts = { cut: 0 };
  const whole = listsOf(rest);
  const beyond = Object.entries(offsets).flatMap(([path, offset]) =>
    offset > (whole.find((list) => list.path === path)?.items.length ?? 0) ? [path] : [],
  );
  const lists = whole.map((list) => ({ ...list, items: list.items.slice(offsets[list.path] ?? 0) }));
  const budget = maxLength - reserveLength - lengthOf(completeness ?? null) - lengthOf(withLists(rest, new Map()));
  const kept = shareOut(lists, budget, texts);
  const page = withLists(rest, kept);
  const fitting = lengthOf(page) <= maxLength - lengthOf(completeness ?? null) ? page : dropLargest(page);
  const bounded = completeness === undefined ? fitting : { ...fitting, completeness };
  const left = lists.filter(({ path, items }) => (kept.get(path)?.length ?? 0) < items.length);
  const shown = left.map(({ path, items }) => `${kept.get(path)?.length ?? 0} of ${items.length} ${path}`);
  const dropped = Object.keys(page).filter((name) => !(name in fitting));
  const cut = [
    ...(beyond.length > 0
      ? [`the cursor is beyond the end of ${beyond.join(", ")}: it is of another call, or the answer became shorter`]
      : []),
    ...(left.length > 0 ? [`this page has ${shown.join(", ")}`] : []),
    ...(texts.cut > 0 ? [`${texts.cut} long strings are truncated`] : []),
    ...(dropped.length > 0 ? [`${dropped.join(", ")} did not fit`] : []),
  ].join("; ");
  if (left.length === 0 || !isRepeatable) return { result: bounded, cut };
  const next = lists.map(({ path }): [string, number] => [path, (offsets[path] ?? 0) + (kept.get(path)?.length ?? 0)]);
  return { result: bounded, nextCursor: formatCursor(Object.fromEntries(next)), cut };
}

interface List {
  path: string;
  items: readonly unknown[];
}

/** Top-level lists and lists in nested objects. A list inside a list item belongs to that item. */
function listsOf(value: Record<string, unknown>, prefix = ""): List[] {
  return Object.entries(value).flatMap(([name, inner]) => {
    const path = `${prefix}${name}`;
    if (Array.isArray(inner)) return [{ path, items: inner }];
    return isJsonObject(inner) ? listsOf(inner, `${path}.`) : [];
  });
}

/** The result with these items in its lists; other lists are empty. */
function withLists(value: Record<string, unknown>, kept: ReadonlyMap<string, readonly unknown[]>, prefix = ""): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      const path = `${prefix}${name}`;
      if (Array.isArray(inner)) return [name, kept.get(path) ?? []];
      return [name, isJsonObject(inner) ? withLists(inner, kept, `${path}.`) : inner];
    }),
  );
}

/** The first items of each list, by max-min fair sharing of the budget: short lists leave their rest to long ones. */
function shareOut(lists: readonly List[], budget: number, texts: { cut: number }): Map<string, readonly unknown[]> {
  const kept = new Map<string, readonly unknown[]>();
  const sized = lists.map((list) => ({ ...list, length: lengthOf(list.items) })).toSorted((a, b) => a.length - b.length);
  let left = Math.max(0, budget);
  for (const [index, { path, items, length }] of sized.entries()) {
    const share = Math.floor(left / (sized.length - index));
    const taken = length <= share ? items : firstItems(items, share, texts);
    kept.set(path, taken);
    left -= lengthOf(taken);
  }
  return kept;
}

/** At least one item, so that every page makes progress. */
function firstItems(items: readonly unknown[], share: number, texts: { cut: number }): unknown[] {
  const taken: unknown[] = [];
  let length = 2;
  for (const item of items) {
    const whole = lengthOf(item) + 1;
    if (length + whole <= share) {
      taken.push(item);
      length += whole;
      continue;
    }
    if (taken.length === 0) taken.push(shortened(item, Math.min(maxTextLength, Math.max(100, Math.floor(share / 4))), texts));
    break;
  }
  return taken;
}

function shortened(value: unknown, textLength: number, texts: { cut: number }): unknown {
  if (typeof value === "string" && value.length > textLength) {
    texts.cut++;
    return `${value.slice(0, textLength)}… (${value.length - textLength} more characters)`;
  }
  if (Array.isArray(value)) {
    const few = value.slice(0, maxInnerItems);
    if (few.length < value.length) texts.cut++;
    return few.map((item) => shortened(item, textLength, texts));
  }
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shortened(inner, textLength, texts)]));
}

/** Items kept of a list inside an oversized item. */
const maxInnerItems = 20;

/** Last resort for results without lists. */
function dropLargest(value: Record<string, unknown>): Record<string, unknown> {
  const rest = { ...value };
  while (lengthOf(rest) > maxLength - reserveLength) {
    const [largest] = Object.entries(rest).toSorted(([, a], [, b]) => lengthOf(b) - lengthOf(a));
    if (!largest) break;
    delete rest[largest[0]];
  }
  return rest;
}

function formatCursor(offsets: Offsets): string {
  return Object.entries(offsets)
    .filter(([, offset]) => offset > 0)
    .map(([path, offset]) => `${path}:${offset}`)
    .join(",");
}

function parseCursor(cursor: string): Offsets {
  const parts = cursor.split(",").map((part) => /^([\w.]{1,100}):(\d{1,9})$/.exec(part));
  if (cursor.length > 1_000 || parts.some((part) => part === null))
    throw new CoralError({
      code: "invalid",
      message: `Cannot continue at cursor ${JSON.stringify(cursor.slice(0, 100))}: use nextCursor of the previous page`,
    });
  return Object.fromEntries(parts.map((part) => [part?.[1] ?? "", Number(part?.[2])]));
}

function lengthOf(value: unknown): number {
  return JSON.stringify(value)?.length ?? 0;
}
