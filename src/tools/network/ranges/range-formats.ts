/** JSON formats of published address lists. Unused fields are ignored; used ones are validated. */

import { awsProduct, azureProduct } from "./product-names.ts";
import type { RangeListBuilder } from "./range-list.ts";

/** `list` is plain text with one range per line. */
export type RangeFormat = "aws" | "google" | "azure" | "cloudflare" | "fastly" | "list";

type Fields = Readonly<Record<string, unknown>>;

interface JsonFormat {
  format: RangeFormat;
  matches(document: Fields): boolean;
  /** Adds all ranges; returns the publication time if the file has it. */
  read(document: Fields, builder: RangeListBuilder): number | undefined;
}

const hasPrefix = (document: Fields, key: string, ...fields: string[]): boolean => {
  const entries = document[key];
  if (!Array.isArray(entries)) return false;
  const first: unknown = entries[0];
  return typeof first === "object" && first !== null && fields.some((field) => field in first);
};

const aws: JsonFormat = {
  format: "aws",
  matches: (document) =>
    "createDate" in document || hasPrefix(document, "prefixes", "ip_prefix") || hasPrefix(document, "ipv6_prefixes", "ipv6_prefix"),
  read: (document, builder) => {
    const lists = [
      ["prefixes", "ip_prefix"],
      ["ipv6_prefixes", "ipv6_prefix"],
    ] as const;
    for (const [key, field] of lists) {
      // Old files list IPv4 only.
      if (document[key] === undefined) continue;
      for (const { entry, place } of entriesOf(document[key], key, builder)) {
        const region = textOf(entry, "region", place, builder);
        const borderGroup = optionalTextOf(entry, "network_border_group", place, builder);
        const label = builder.label({
          provider: "AWS",
          ...awsProduct(textOf(entry, "service", place, builder)),
          ...(region === "GLOBAL" ? {} : { region }),
          ...(borderGroup === undefined || borderGroup === region || borderGroup === "GLOBAL" ? {} : { borderGroup }),
        });
        builder.add(textOf(entry, field, place, builder), label, `${place}.${field}`);
      }
    }
    const [year, month, day, hour, minute, second] = String(document["createDate"]).split("-");
    return timeOf(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  },
};

/** `cloud.json` has region and service. `goog.json` covers all of Google, the cloud included, and has neither. */
const google: JsonFormat = {
  format: "google",
  // Other providers use the same format without `syncToken`.
  matches: (document) => "syncToken" in document && hasPrefix(document, "prefixes", "ipv4Prefix", "ipv6Prefix"),
  read: (document, builder) => {
    for (const { entry, place } of entriesOf(document["prefixes"], "prefixes", builder)) {
      const service = optionalTextOf(entry, "service", place, builder);
      const scope = optionalTextOf(entry, "scope", place, builder);
      const label = builder.label({
        provider: service ?? "Google",
        ...(scope === undefined || scope === "global" ? {} : { region: scope }),
        kind: service === undefined ? "provider" : "compute",
      });
      const field = "ipv6Prefix" in entry ? "ipv6Prefix" : "ipv4Prefix";
      builder.add(textOf(entry, field, place, builder), label, `${place}.${field}`);
    }
    const time = String(document["creationTime"]);
    // Google writes UTC without a zone.
    return timeOf(/(?:Z|[+-]\d\d:\d\d)$/.test(time) ? time : `${time}Z`);
  },
};

const azure: JsonFormat = {
  format: "azure",
  matches: (document) => hasPrefix(document, "values", "properties"),
  read: (document, builder) => {
    for (const { entry, place } of entriesOf(document["values"], "values", builder)) {
      const tag = textOf(entry, "name", place, builder);
      const properties = entry["properties"];
      if (!isFields(properties)) throw builder.problem(`${place}.properties`, "an object is missing");
      const region = optionalTextOf(properties, "region", `${place}.properties`, builder);
      const label = builder.label({ provider: "Azure", ...azureProduct(tag), ...(region === undefined ? {} : { region }) });
      addTexts(properties["addressPrefixes"], `${place}.properties.addressPrefixes`, label, builder);
    }
    return undefined;
  },
};

const cloudflare: JsonFormat = {
  format: "cloudflare",
  matches: (document) => isFields(document["result"]) && ("ipv4_cidrs" in document["result"] || "ipv6_cidrs" in document["result"]),
  read: (document, builder) => {
    const result = document["result"];
    if (!isFields(result)) return undefined;
    const label = builder.label({ provider: "Cloudflare", kind: "service" });
    for (const key of ["ipv4_cidrs", "ipv6_cidrs"]) addTexts(result[key], `result.${key}`, label, builder);
    if (result["jdcloud_cidrs"] !== undefined) addTexts(result["jdcloud_cidrs"], "result.jdcloud_cidrs", label, builder);
    return undefined;
  },
};

const fastly: JsonFormat = {
  format: "fastly",
  matches: (document) => Array.isArray(document["addresses"]) && Array.isArray(document["ipv6_addresses"]),
  read: (document, builder) => {
    const label = builder.label({ provider: "Fastly", kind: "service" });
    for (const key of ["addresses", "ipv6_addresses"]) addTexts(document[key], key, label, builder);
    return undefined;
  },
};

/** The first matching format parses the file. */
export const jsonFormats: readonly JsonFormat[] = [aws, google, azure, cloudflare, fastly];

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function* entriesOf(value: unknown, key: string, builder: RangeListBuilder): Generator<{ entry: Fields; place: string }> {
  if (!Array.isArray(value)) throw builder.problem(key, "a list is missing");
  for (const [index, entry] of (value as unknown[]).entries()) {
    const place = `${key}[${index}]`;
    if (!isFields(entry)) throw builder.problem(place, "an object is missing");
    yield { entry, place };
  }
}

function addTexts(value: unknown, place: string, label: number, builder: RangeListBuilder): void {
  if (!Array.isArray(value)) throw builder.problem(place, "a list is missing");
  for (const [index, text] of (value as unknown[]).entries()) {
    if (typeof text !== "string") throw builder.problem(`${place}[${index}]`, "a string is missing");
    builder.add(text, label, `${place}[${index}]`);
  }
}

/** Names are printed and stored unescaped, so only printable ASCII is accepted. */
function textOf(entry: Fields, field: string, place: string, builder: RangeListBuilder): string {
  const value = entry[field];
  if (typeof value !== "string" || value === "") throw builder.problem(`${place}.${field}`, "a string is missing");
  if (!/^[\x20-\x7e]{1,100}$/.test(value)) throw builder.problem(`${place}.${field}`, "the string is too long or not printable ASCII");
  return value;
}

/** Absent and empty mean the same: Azure writes an empty region for global services. */
function optionalTextOf(entry: Fields, field: string, place: string, builder: RangeListBuilder): string | undefined {
  return entry[field] === undefined || entry[field] === "" ? undefined : textOf(entry, field, place, builder);
}

function timeOf(text: string): number | undefined {
  const timeMs = Date.parse(text);
  return Number.isNaN(timeMs) ? undefined : timeMs;
}
