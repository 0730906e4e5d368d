/**
 * How fast an external address is parsed and found among 100,000 published ranges, against a linear scan of all ranges
 * and against Node's `BlockList`, which only reports whether any range matches.
 */

import { BlockList } from "node:net";
import { parseIpv4, parseIpv6 } from "../src/base/ip-parse.ts";
import { PrefixTable } from "../src/colony/discovery/endpoint-names/prefix-table.ts";
import { type RangeLabel, type RangeList, RangeListBuilder } from "../src/tools/index.ts";
import { figureOf, isSmall, report, single } from "./lib/report.ts";
import { ratioOf } from "./lib/spread.ts";

const prefixes = isSmall ? 10_000 : 100_000;
/** Per measured call. */
const lookups = 100_000;
/** Per round; the baselines are slow. */
const scanned = 200;
const rounds = isSmall ? 3 : 7;
const kibibyte = 1024;

interface Range {
  words: readonly number[];
  masks: readonly number[];
  length: number;
  text: string;
  label: RangeLabel;
}

let state = 11;

/** 0 to 2^32 - 1, deterministic. */
function random(): number {
  state = (state + 0x9e3779b9) >>> 0;
  let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
  return (mixed ^ (mixed >>> 15)) >>> 0;
}

const pick = <T>(values: readonly T[]): T => values[random() % values.length] as T;
const dotted = (bits: number): string => [bits >>> 24, (bits >>> 16) & 255, (bits >>> 8) & 255, bits & 255].join(".");
const colons = (words: readonly number[]): string =>
  words
    .flatMap((word) => [word >>> 16, word & 0xffff])
    .map((group) => group.toString(16))
    .join(":");

/** Realistic prefix lengths, 4 of 5 ranges IPv4, in the address space that providers use. */
function makeRanges(): Range[] {
  const labels = Array.from(
    { length: 500 },
    (_, index): RangeLabel => ({ provider: "AWS", product: `p${index}`, region: `r${index % 30}`, kind: "service" }),
  );
  return Array.from({ length: prefixes }, (_, index): Range => {
    const isIpv4 = index % 5 !== 0;
    const length = isIpv4 ? pick([16, 18, 20, 21, 22, 23, 24, 24, 24, 27, 28, 32]) : pick([32, 36, 40, 44, 48, 48, 56, 64]);
    const address = isIpv4 ? [random()] : [0x20000000 | (random() & 0x6ffffff), random(), 0, 0];
    const words = address.map((word, at) => keep(word, length - at * 32));
    const text = `${isIpv4 ? dotted(words[0] ?? 0) : colons(words)}/${length}`;
    return { words, masks: words.map((_, at) => keep(0xffffffff, length - at * 32)), length, text, label: pick(labels) };
  });
}

function keep(word: number, bits: number): number {
  if (bits >= 32) return word >>> 0;
  return bits <= 0 ? 0 : (word & (0xffffffff << (32 - bits))) >>> 0;
}

/** Half of them inside a range, half random. */
function makeAddresses(ranges: readonly Range[]): string[] {
  return Array.from({ length: lookups }, (_, index) => {
    const { words, length } = pick(ranges);
    const inside = index % 2 === 0;
    const address = words.map(
      (word, at) => (inside ? word | (length - at * 32 >= 32 ? 0 : random() & ~keep(0xffffffff, length - at * 32)) : random()) >>> 0,
    );
    return address.length === 1 ? dotted(address[0] ?? 0) : colons(address);
  });
}

function listOf(ranges: readonly Range[]): RangeList {
  const builder = new RangeListBuilder("bench");
  for (const { text, label } of ranges) builder.add(text, builder.label(label), "bench");
  return builder.finish();
}

function scan(ranges: readonly Range[], address: string): RangeLabel | undefined {
  const bits = parseIpv4(address);
  const words = bits === undefined ? (parseIpv6(address) ?? []) : [bits];
  let best: Range | undefined;
  for (const range of ranges) {
    if (range.words.length !== words.length || (best !== undefined && range.length < best.length)) continue;
    let at = 0;
    while (at < words.length && (((words[at] ?? 0) ^ (range.words[at] ?? 0)) & (range.masks[at] ?? 0)) === 0) at++;
    if (at === words.length) best = range;
  }
  return best?.label;
}

function blockListOf(ranges: readonly Range[]): BlockList {
  const list = new BlockList();
  for (const { text, length } of ranges) {
    const [address = ""] = text.split("/");
    list.addSubnet(address, length, address.includes(":") ? "ipv6" : "ipv4");
  }
  return list;
}

/** Microseconds per call. */
function timeUs(addresses: readonly string[], look: (address: string) => unknown): number {
  const startMs = performance.now();
  let found = 0;
  for (const address of addresses) if (look(address)) found++;
  const tookMs = performance.now() - startMs;
  if (found === 0) throw new Error("No address was found in any range");
  return (tookMs * 1_000) / addresses.length;
}

const ranges = makeRanges();
const list = listOf(ranges);
const addresses = makeAddresses(ranges);
const sample = addresses.slice(0, scanned);
const blockList = blockListOf(ranges);
const table = new PrefixTable([list]);
for (const address of sample) {
  const expected = scan(ranges, address);
  const got = table.lookup(address);
  if (got !== expected) throw new Error(`${address} is in ${JSON.stringify(expected)}, but the lookup returned ${JSON.stringify(got)}`);
  if (blockList.check(address, address.includes(":") ? "ipv6" : "ipv4") !== (expected !== undefined))
    throw new Error(`BlockList differs for ${address}`);
}

const buildMs: number[] = [];
const tableUs: number[] = [];
const scanUs: number[] = [];
const blockListUs: number[] = [];
for (let round = 0; round < rounds; round++) {
  const startMs = performance.now();
  const built = new PrefixTable([list]);
  buildMs.push(performance.now() - startMs);
  tableUs.push(timeUs(addresses, (address) => built.lookup(address)));
  scanUs.push(timeUs(sample, (address) => scan(ranges, address)));
  blockListUs.push(timeUs(sample, (address) => blockList.check(address, address.includes(":") ? "ipv6" : "ipv4")));
}
const asMs = (us: readonly number[]): number[] => us.map((value) => (value * lookups) / 1_000);

report({
  name: "endpoint-names",
  sizes: { prefixes, lookups, scanned, rounds },
  figures: [
    // 2 µs each.
    figureOf("100,000 lookups", "ms", asMs(tableUs), { kind: "at-most", value: 200 }),
    figureOf("lookups against a scan", "×", ratioOf(scanUs, tableUs), { kind: "at-least", value: 100 }),
    figureOf("lookups against BlockList", "×", ratioOf(blockListUs, tableUs), { kind: "at-least", value: 100 }),
    figureOf("building the table", "ms", buildMs, { kind: "at-most", value: 1_000 }),
    figureOf("memory of the table", "MiB", single(table.sizeBytes / kibibyte ** 2), { kind: "at-most", value: 8 }),
  ],
  notes: [`per lookup: table ${us(tableUs)}, scan ${us(scanUs)}, BlockList ${us(blockListUs)}`],
});

function us(values: readonly number[]): string {
  const median = [...values].sort((left, right) => left - right)[Math.floor(values.length / 2)] ?? 0;
  return `${median.toFixed(2)} µs`;
}
