import { describe, expect, it } from "vitest";
import { parseIpv4, parseIpv6 } from "../../../base/ip-parse.ts";
import { SeededRandom } from "../../../base/seeded-random.fixture.ts";
import { type RangeLabel, type RangeList, RangeListBuilder } from "../../../tools/index.ts";
import { canonicalAddress } from "./address-scope.ts";
import { PrefixTable } from "./prefix-table.ts";

interface Entry {
  range: string;
  label: RangeLabel;
}

function listOf(entries: readonly Entry[]): RangeList {
  const builder = new RangeListBuilder("test");
  for (const { range, label } of entries) builder.add(range, builder.label(label), "test");
  return builder.finish();
}

const service = (product: string, region?: string): RangeLabel => ({
  provider: "AWS",
  product,
  kind: product === "EC2" ? "compute" : "service",
  ...(region === undefined ? {} : { region }),
});
const amazon = (region?: string): RangeLabel => ({ provider: "AWS", kind: "provider", ...(region === undefined ? {} : { region }) });
const table = (...entries: [string, RangeLabel][]): PrefixTable =>
  new PrefixTable([listOf(entries.map(([range, label]) => ({ range, label })))]);

describe("PrefixTable.lookup()", () => {
  it("finds the longest range, and the outer one next to it", () => {
    const ranges = table(["10.0.0.0/8", service("wide")], ["10.1.0.0/16", service("middle")], ["10.1.2.3/32", service("one")]);
    const products = [
      "9.255.255.255",
      "10.0.0.0",
      "10.1.0.0",
      "10.1.2.2",
      "10.1.2.3",
      "10.1.2.4",
      "10.1.255.255",
      "10.2.0.0",
      "10.255.255.255",
      "11.0.0.0",
    ];
    expect(products.map((address) => ranges.lookup(address)?.product)).toEqual([
      undefined,
      "wide",
      "middle",
      "middle",
      "one",
      "middle",
      "middle",
      "wide",
      "wide",
      undefined,
    ]);
  });

  it("covers both ends of the address spaces", () => {
    const ranges = table(
      ["0.0.0.0/8", service("low")],
      ["255.0.0.0/8", service("high")],
      ["ff00::/16", service("high6")],
      ["ffff::/16", service("end6")],
    );
    expect(ranges.lookup("0.0.0.0")?.product).toBe("low");
    expect(ranges.lookup("255.255.255.255")?.product).toBe("high");
    expect(ranges.lookup("ff00:ffff:ffff:ffff:ffff:ffff:ffff:ffff")?.product).toBe("high6");
    expect(ranges.lookup("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")?.product).toBe("end6");
    expect(ranges.lookup("ff01::")).toBeUndefined();
  });

  it("prefers a product to the whole provider, for equal and for narrower ranges", () => {
    const ranges = table(
      ["3.5.140.0/22", amazon("ap-northeast-2")],
      ["3.5.140.0/22", service("S3", "ap-northeast-2")],
      ["3.5.140.0/22", service("EC2", "ap-northeast-2")],
      ["52.92.0.0/17", service("S3")],
      ["52.92.16.0/24", amazon("us-west-2")],
      ["52.92.16.128/25", service("EC2")],
    );
    expect(ranges.lookup("3.5.140.1")?.product).toBe("S3");
    expect(ranges.lookup("52.92.16.1")?.product).toBe("S3");
    expect(ranges.lookup("52.92.16.129")?.product).toBe("EC2");
  });

  it("prefers ranges with a region, then the later list, among equal ranges", () => {
    const first = listOf([
      { range: "20.0.0.0/16", label: service("Storage", "westeurope") },
      { range: "20.0.0.0/16", label: service("Storage") },
      { range: "20.1.0.0/16", label: service("old") },
    ]);
    const ranges = new PrefixTable([first, listOf([{ range: "20.1.0.0/16", label: service("new") }])]);
    expect(ranges.lookup("20.0.0.1")?.region).toBe("westeurope");
    expect(ranges.lookup("20.1.0.1")?.product).toBe("new");
    expect(ranges.prefixCount).toBe(4);
  });

  it("looks up mapped IPv4 addresses as IPv4, and finds nothing for other texts", () => {
    const ranges = table(["192.0.2.0/24", service("S3")], ["::/12", service("zero")]);
    expect(ranges.lookup("::ffff:192.0.2.1")?.product).toBe("S3");
    expect(ranges.lookup("::fffe:192.0.2.1")?.product).toBe("zero");
    for (const text of ["", "192.0.2", "host", "192.0.2.0/24", "::g"]) expect(ranges.lookup(text)).toBeUndefined();
  });

  it("is empty without ranges", () => {
    const ranges = new PrefixTable([]);
    expect(ranges.lookup("1.2.3.4")).toBeUndefined();
    expect(ranges.lookup("::1")).toBeUndefined();
    expect(ranges.sizeBytes).toBe(0);
  });

  it.each([1, 2, 3, 4, 5, 6])("agrees with a scan of all ranges, seed %i", (seed) => {
    const random = new SeededRandom(seed);
    const entries = [...randomEntries(random, "ipv4", 400), ...randomEntries(random, "ipv6", 400)];
    const half = random.below(entries.length);
    const ranges = new PrefixTable([listOf(entries.slice(0, half)), listOf(entries.slice(half))]);
    const scanned = entries.map(scannable);
    const wrong: unknown[] = [];
    let found = 0;
    for (let round = 0; round < 4_000; round++) {
      const address = nearSomeRange(random, entries);
      const expected = scan(scanned, address);
      found += expected === undefined ? 0 : 1;
      if (JSON.stringify(ranges.lookup(address)) !== JSON.stringify(expected))
        wrong.push({ address, expected, got: ranges.lookup(address) });
    }
    expect(wrong).toEqual([]);
    expect(found).toBeGreaterThan(500);
  });
});

const text = (bits: bigint, isIpv4: boolean): string => {
  if (isIpv4) return [24n, 16n, 8n, 0n].map((shift) => (bits >> shift) & 255n).join(".");
  const groups = Array.from({ length: 8 }, (_, index) => ((bits >> BigInt(112 - index * 16)) & 0xffffn).toString(16));
  return canonicalAddress(groups.join(":")) ?? "";
};

const bitsOf = (address: string): bigint => {
  const bits = parseIpv4(address);
  if (bits !== undefined) return BigInt(bits);
  return (parseIpv6(address) ?? []).reduce((sum, word) => (sum << 32n) | BigInt(word), 0n);
};

/** Uses few distinct starts, so that ranges nest and repeat. */
function randomEntries(random: SeededRandom, family: "ipv4" | "ipv6", count: number): Entry[] {
  const width = family === "ipv4" ? 32 : 128;
  return Array.from({ length: count }, () => {
    const length = random.pick(family === "ipv4" ? [4, 8, 9, 15, 16, 17, 24, 31, 32] : [12, 16, 31, 32, 33, 48, 64, 96, 97, 127, 128]);
    let bits = 0n;
    for (let shift = 0; shift < width; shift += 8) bits = (bits << 8n) | BigInt(random.pick([0, 0, 1, 128, 255]));
    bits = (bits >> BigInt(width - length)) << BigInt(width - length);
    const kind = random.pick(["provider", "compute", "service"] as const);
    const label: RangeLabel = {
      provider: random.pick(["A", "B"]),
      product: `p${random.below(40)}`,
      kind,
      ...(random.below(2) ? { region: "r" } : {}),
    };
    return { range: `${text(bits, family === "ipv4")}/${length}`, label };
  });
}

function nearSomeRange(random: SeededRandom, entries: readonly Entry[]): string {
  const [address = "", length] = random.pick(entries).range.split("/");
  const isIpv4 = !address.includes(":");
  const width = isIpv4 ? 32 : 128;
  const size = 1n << BigInt(width - Number(length));
  const offset = random.pick([-1n, 0n, 1n, size - 1n, size, BigInt(random.below(1_000)) % size]);
  return text(BigInt.asUintN(width, bitsOf(address) + offset), isIpv4);
}

const rank = ({ kind, region }: RangeLabel): number =>
  ["provider", "compute", "service"].indexOf(kind) * 2 + (region === undefined ? 0 : 1);

interface Scannable {
  isIpv4: boolean;
  start: bigint;
  length: number;
  label: RangeLabel;
}

function scannable({ range, label }: Entry): Scannable {
  const [address = "", length] = range.split("/");
  return { isIpv4: !address.includes(":"), start: bitsOf(address), length: Number(length), label };
}

/** The reference rule: specific ranges before those of a provider, longer before shorter, higher rank, later entry. */
function scan(ranges: readonly Scannable[], address: string): RangeLabel | undefined {
  const isIpv4 = !address.includes(":");
  const bits = bitsOf(address);
  let best: Scannable | undefined;
  for (const range of ranges) {
    if (range.isIpv4 !== isIpv4 || (range.start ^ bits) >> BigInt((isIpv4 ? 32 : 128) - range.length) !== 0n) continue;
    if (!best || isBetter(range, best)) best = range;
  }
  return best?.label;
}

function isBetter(next: Scannable, best: Scannable): boolean {
  const isSpecific = next.label.kind !== "provider";
  if (isSpecific !== (best.label.kind !== "provider")) return isSpecific;
  if (next.length !== best.length) return next.length > best.length;
  return rank(next.label) >= rank(best.label);
}
