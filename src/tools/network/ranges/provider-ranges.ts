/** Parses address lists in the formats that providers publish. Pure: text in, ranges out. */

import { CoralError } from "../../../base/errors.ts";
import { findJsonFault } from "./json-fault.ts";
import { jsonFormats, type RangeFormat } from "./range-formats.ts";
import { quote, type RangeList, RangeListBuilder } from "./range-list.ts";

/** The largest published list, Azure's, has about 5 MiB. */
export const maxRangesFileBytes = 64 * 1024 ** 2;

/** Provider by file name: Cloudflare's plain lists as downloaded, and lists kept under the provider's name. */
const listProviders: readonly [RegExp, string][] = [
  [/^(?:cloudflare|ips-v[46]$)/, "Cloudflare"],
  [/^fastly/, "Fastly"],
  [/^akamai/, "Akamai"],
];

/** One file of ranges. */
export interface ProviderRanges {
  format: RangeFormat;
  /** Provider of the first range. */
  provider: string;
  /** Publication time, milliseconds since 1970, if the file has it. */
  publishedAtMs?: number;
  /** Number of ranges, both families. */
  count: number;
  ranges: RangeList;
}

/** For error messages. */
export const supportedFormats =
  "AWS ip-ranges.json, Google cloud.json and goog.json, Azure ServiceTags JSON, Cloudflare's API answer, Fastly's public-ip-list, or plain text with one range per line";

/** Recognises the format by its content. `file` is its name, for messages and for the provider of a plain list. Throws `invalid` or `exhausted`. */
export function parseProviderRanges(text: string, file: string): ProviderRanges {
  const builder = new RangeListBuilder(file);
  if (text.length > maxRangesFileBytes) throw builder.problem("", "it is larger than 64 MiB", "exhausted");
  const body = text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  const first = /\S/.exec(body)?.[0];
  if (first === undefined) throw builder.problem("", "it is empty");
  const read = first === "{" || first === "[" ? readJson(body, builder) : readList(body, file, builder);
  const ranges = builder.finish();
  if (builder.count === 0) throw builder.problem("", "it contains no ranges");
  return { ...read, provider: ranges.labels[0]?.provider ?? "", count: builder.count, ranges };
}

function readJson(text: string, builder: RangeListBuilder): Pick<ProviderRanges, "format" | "publishedAtMs"> {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    // The engine's message quotes the file, which may hold anything; report only the position.
    throw notJson(text, builder);
  }
  if (typeof document === "object" && document !== null && !Array.isArray(document)) {
    const found = jsonFormats.find((format) => format.matches(document as Record<string, unknown>));
    if (found) {
      const publishedAtMs = found.read(document as Record<string, unknown>, builder);
      return { format: found.format, ...(publishedAtMs === undefined ? {} : { publishedAtMs }) };
    }
  }
  throw builder.problem("", `unknown JSON format; supported: ${supportedFormats}`);
}

function notJson(text: string, builder: RangeListBuilder): CoralError {
  const at = findJsonFault(text);
  const before = text.slice(0, at);
  const place = `line ${before.split("\n").length} column ${at - before.lastIndexOf("\n")}`;
  return builder.problem(place, at === text.length ? "truncated JSON" : "not valid JSON");
}

/** One range per line; `#` starts a comment. */
function readList(text: string, file: string, builder: RangeListBuilder): Pick<ProviderRanges, "format"> {
  const label = builder.label({ provider: providerOfList(file, builder), kind: "service" });
  let lineNumber = 0;
  for (const line of text.split("\n")) {
    lineNumber++;
    const range = (line.split("#", 1)[0] ?? "").trim();
    if (range === "") continue;
    try {
      builder.add(range, label, `line ${lineNumber}`);
    } catch (error) {
      // Not even the first line is a range: the file has another format, so list the supported ones.
      if (builder.count > 0 || !(error instanceof CoralError)) throw error;
      throw builder.problem(`line ${lineNumber}`, `${quote(range)} is not an address range; supported: ${supportedFormats}`);
    }
  }
  return { format: "list" };
}

function providerOfList(file: string, builder: RangeListBuilder): string {
  const name = file.split(/[/\\]/).at(-1) ?? "";
  const stem = name.replace(/\.[a-z]{1,5}$/i, "");
  const known = listProviders.find(([pattern]) => pattern.test(stem.toLowerCase()))?.[1];
  if (known !== undefined) return known;
  if (/^[A-Za-z0-9][\w .-]{0,63}$/.test(stem)) return stem;
  throw builder.problem(
    "",
    "a plain list names its provider by its file name; use letters, digits, dots and dashes, such as acme-office.txt",
  );
}
