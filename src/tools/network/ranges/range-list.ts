/** Address ranges with labels, in typed arrays: half a million take about 10 MB. */

import { CoralError } from "../../../base/errors.ts";
import { parseIpv4, parseIpv6 } from "../../../base/ip-parse.ts";

/**
 * How specific a range is. `provider`: only its owner is known. `compute`: rented machines that may run anything. `service`: one
 * product, or a network with one purpose. Where ranges overlap, `provider` never hides the other two.
 */
export type RangeKind = "provider" | "compute" | "service";

/** Owner of a range. All strings are printable ASCII. */
export interface RangeLabel {
  /** `AWS`, `Google Cloud`, `Google`, `Azure`, `Cloudflare`, `Fastly`, or the name of a plain list. */
  provider: string;
  /** `S3`, `CloudFront`, `Storage`; absent when the range has none. */
  product?: string;
  /** `eu-west-1`; absent for global ranges. */
  region?: string;
  /** AWS network border group, where it is more specific than the region: `us-west-2-lax-1`. */
  borderGroup?: string;
  kind: RangeKind;
}

/** Ranges of one family; `words` holds 1 (IPv4) or 4 (IPv6) 32-bit words per range, `labels` indexes `RangeList.labels`. */
export interface FamilyRanges {
  wordsPerAddress: 1 | 4;
  count: number;
  words: Uint32Array;
  lengths: Uint8Array;
  labels: Uint32Array;
}

export interface RangeList {
  labels: readonly RangeLabel[];
  ipv4: FamilyRanges;
  ipv6: FamilyRanges;
}

/** More than all providers publish together. */
export const maxPrefixes = 500_000;
/** Widest accepted prefixes: one wrong line must not rename large parts of the internet. */
const minLengths = { ipv4: 4, ipv6: 12 };

class FamilyBuilder {
  readonly #wordsPerAddress: 1 | 4;
  readonly #words: number[] = [];
  readonly #lengths: number[] = [];
  readonly #labels: number[] = [];

  constructor(wordsPerAddress: 1 | 4) {
    this.#wordsPerAddress = wordsPerAddress;
  }

  get count(): number {
    return this.#lengths.length;
  }

  add(words: readonly number[], length: number, label: number): void {
    this.#words.push(...words);
    this.#lengths.push(length);
    this.#labels.push(label);
  }

  finish(): FamilyRanges {
    return {
      wordsPerAddress: this.#wordsPerAddress,
      count: this.count,
      words: Uint32Array.from(this.#words),
      lengths: Uint8Array.from(this.#lengths),
      labels: Uint32Array.from(this.#labels),
    };
  }
}

/** Collects the ranges of one file; every error names the file and the position. */
export class RangeListBuilder {
  readonly #file: string;
  readonly #labels: RangeLabel[] = [];
  readonly #labelIndexes = new Map<string, number>();
  readonly #ipv4 = new FamilyBuilder(1);
  readonly #ipv6 = new FamilyBuilder(4);

  constructor(file: string) {
    this.#file = file;
  }

  get count(): number {
    return this.#ipv4.count + this.#ipv6.count;
  }

  /** Index of a label for `add`; equal labels share one. */
  label(label: RangeLabel): number {
    const { provider, product = "", region = "", borderGroup = "", kind } = label;
    const key = [provider, product, region, borderGroup, kind].join("\n");
    const known = this.#labelIndexes.get(key);
    if (known !== undefined) return known;
    this.#labelIndexes.set(key, this.#labels.length);
    return this.#labels.push(label) - 1;
  }

  /** `10.0.0.0/8`, `2001:db8::/32`, or one address. `place` is for the error message: `prefixes[3].ip_prefix`, `line 7`. */
  add(text: string, label: number, place: string): void {
    if (this.count >= maxPrefixes) throw this.problem(place, `the file has more than ${maxPrefixes} ranges`, "exhausted");
    const slash = text.indexOf("/");
    const address = slash < 0 ? text : text.slice(0, slash);
    const bits = parseIpv4(address);
    const words = bits === undefined ? parseIpv6(address) : [bits];
    if (words === undefined) throw this.problem(place, `${quote(text)} is not an address range`);
    const isIpv4 = bits !== undefined;
    const width = isIpv4 ? 32 : 128;
    const length = slash < 0 ? width : prefixLength(text.slice(slash + 1));
    if (length > width) throw this.problem(place, `${quote(text)} needs a prefix length of 0 to ${width}`);
    const min = isIpv4 ? minLengths.ipv4 : minLengths.ipv6;
    if (length < min) throw this.problem(place, `${quote(text)} is wider than /${min}`);
    if (!isNetworkAddress(words, length)) throw this.problem(place, `${quote(text)} has bits set beyond its prefix length`);
    (isIpv4 ? this.#ipv4 : this.#ipv6).add(words, length, label);
  }

  finish(): RangeList {
    return { labels: this.#labels, ipv4: this.#ipv4.finish(), ipv6: this.#ipv6.finish() };
  }

  /** `Cannot read ranges file "f": at <place>: <what>`. */
  problem(place: string, what: string, code: "invalid" | "exhausted" = "invalid"): CoralError {
    const at = place === "" ? "" : `at ${place}, `;
    return new CoralError({
      code,
      message: `Cannot read ranges file ${quote(this.#file)}: ${at}${what}`,
      details: { file: this.#file, place },
    });
  }
}

/** Untrusted text for a message: shortened, without terminal control characters. */
export function quote(text: string): string {
  const short = text.length > 60 ? `${text.slice(0, 60)}...` : text;
  return `"${short.replace(/[^\x20-\x7e]/g, "?")}"`;
}

/** 255, invalid for both families, when it is not a plain number. */
function prefixLength(text: string): number {
  return /^(?:0|[1-9]\d{0,2})$/.test(text) ? Math.min(Number(text), 255) : 255;
}

function isNetworkAddress(words: readonly number[], length: number): boolean {
  return words.every((word, index) => {
    const kept = Math.min(Math.max(length - index * 32, 0), 32);
    return kept === 32 || (word & (0xffffffff >>> kept)) === 0;
  });
}
