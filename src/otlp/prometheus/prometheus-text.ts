/** Parses Prometheus' text format and OpenMetrics into data points. The input is untrusted. */

import type { MetricKind, MetricPoint } from "../decode/metric-point.ts";
import { parseFloatText, parseSample, type TextSample } from "./prometheus-sample.ts";

/** What the text does not say about itself. */
export interface ScrapeSource {
  service: string;
  /** `host:port` of the target. */
  instance: string;
  /** Scrape time, microseconds since 1970: the time of all values without a timestamp. */
  atUs: number;
  isOpenMetrics: boolean;
  /** Further lines are dropped and counted. */
  maxSamples: number;
}

/** The points of one scrape. Histograms and summaries are assembled from several lines. */
export interface ScrapedPoints {
  points: MetricPoint[];
  /** Malformed lines, and inconsistent histograms. */
  malformed: number;
  /** Samples beyond the bound. */
  cut: number;
}

type TextType = "counter" | "gauge" | "histogram" | "summary";

interface Family {
  type: TextType | undefined;
  help: string;
  unit: string;
}

interface Grouped {
  family: string;
  type: "histogram" | "summary";
  labels: [string, string][];
  timeUs: number;
  count: number | undefined;
  sum: number | undefined;
  /** Upper bounds or quantiles. */
  parts: [number, number][];
}

/** Metric names with a type, help or unit; those of further ones are ignored. */
const maxFamilies = 20_000;
/** Buckets or quantiles of one histogram or summary; further ones count as malformed. */
const maxParts = 4_096;

/** Never throws. A malformed line is counted, and the next one is read. */
export function parsePrometheusText(text: string, source: ScrapeSource): ScrapedPoints {
  return new TextReader(source).read(text);
}

/** For one scrape. Points of histograms and summaries are made at the end, because their lines may be in any order. */
class TextReader {
  readonly #source: ScrapeSource;
  readonly #families = new Map<string, Family>();
  readonly #groups = new Map<string, Grouped>();
  readonly #points: MetricPoint[] = [];
  #samples = 0;
  #malformed = 0;
  #cut = 0;

  constructor(source: ScrapeSource) {
    this.#source = source;
  }

  read(text: string): ScrapedPoints {
    for (let start = 0; start < text.length; ) {
      const newline = text.indexOf("\n", start);
      const end = newline === -1 ? text.length : newline;
      const line = text.slice(start, end).trim();
      start = end + 1;
      if (line.startsWith("#")) this.#remark(line);
      else if (line !== "") this.#line(line);
    }
    for (const group of this.#groups.values()) this.#finish(group);
    return { points: this.#points, malformed: this.#malformed, cut: this.#cut };
  }

  /** `# TYPE name kind`, `# HELP name words`, `# UNIT name unit`. */
  #remark(line: string): void {
    const found = /^#\s*(TYPE|HELP|UNIT)\s+(\S+)\s*(.*)$/.exec(line);
    if (!found) return;
    const [, what, name = "", rest = ""] = found;
    if (!this.#families.has(name) && this.#families.size >= maxFamilies) return;
    const family = this.#families.get(name) ?? { type: undefined, help: "", unit: "" };
    this.#families.set(name, family);
    if (what === "HELP") family.help = rest.slice(0, 1_024).replace(/\\n/g, "\n").replace(/\\\\/g, "\\");
    else if (what === "UNIT") family.unit = unitOf(rest);
    else if (isTextType(rest)) family.type = rest;
  }

  #line(line: string): void {
    if (this.#samples >= this.#source.maxSamples) {
      this.#cut++;
      return;
    }
    const sample = parseSample(line);
    if (sample === undefined) {
      this.#malformed++;
      return;
    }
    this.#samples++;
    const { name } = sample;
    if (this.#families.get(name)?.type === "summary") this.#part(name, "summary", "quantile", sample);
    else if (!this.#suffixed(sample)) this.#single(name, this.#families.get(name)?.type === "counter", sample);
  }

  /** Handles a sample that is a part of a family, such as `x_bucket` of `x`; false if it is not one. */
  #suffixed(sample: TextSample): boolean {
    const found = /^(.+)_(bucket|sum|count|total|created)$/.exec(sample.name);
    if (!found) return false;
    const [, base = "", suffix] = found;
    const type = this.#families.get(base)?.type;
    if (type === undefined) return false;
    // The start of a series is derived from its values.
    if (suffix === "created") return type !== "gauge";
    if (suffix === "total" && type === "counter") this.#single(sample.name, true, sample, base);
    else if (type === "histogram" && suffix === "bucket") this.#part(base, type, "le", sample);
    else if ((type === "histogram" || type === "summary") && (suffix === "sum" || suffix === "count")) {
      const group = this.#group(base, type, sample.labels, sample);
      group[suffix] = sample.value;
    } else return false;
    return true;
  }

  #single(name: string, isCounter: boolean, sample: TextSample, family = name): void {
    const value = { value: sample.value, attributes: attributesOf(sample.labels) };
    this.#points.push({ ...this.#common(name, family, isCounter ? "sum" : "gauge", this.#timeUs(sample)), ...value });
  }

  #part(family: string, type: Grouped["type"], label: "le" | "quantile", sample: TextSample): void {
    const edge = sample.labels.find(([name]) => name === label);
    const at = parseFloatText(edge?.[1] ?? "");
    const group = this.#group(
      family,
      type,
      sample.labels.filter(([name]) => name !== label),
      sample,
    );
    if (at === undefined || Number.isNaN(at) || group.parts.length >= maxParts) this.#malformed++;
    else group.parts.push([at, sample.value]);
  }

  #group(family: string, type: Grouped["type"], labels: [string, string][], sample: TextSample): Grouped {
    const key = `${family} ${attributesOf(labels)}`;
    const found = this.#groups.get(key);
    if (found) return found;
    const made: Grouped = { family, type, labels, timeUs: this.#timeUs(sample), count: undefined, sum: undefined, parts: [] };
    this.#groups.set(key, made);
    return made;
  }

  #finish(group: Grouped): void {
    const { family, type, labels, timeUs, sum } = group;
    const made = type === "histogram" ? bucketsOf(group) : quantilesOf(group);
    if (made === undefined) {
      this.#malformed++;
      return;
    }
    const common = this.#common(family, family, type, timeUs);
    this.#points.push({ ...common, attributes: attributesOf(labels), ...(sum === undefined ? {} : { sum }), ...made });
  }

  #timeUs({ timestamp }: TextSample): number {
    if (timestamp === undefined) return this.#source.atUs;
    // Seconds in OpenMetrics, milliseconds in the older format.
    return Math.round(timestamp * (this.#source.isOpenMetrics ? 1_000_000 : 1_000));
  }

  #common(name: string, family: string, kind: MetricKind, timeUs: number): Omit<MetricPoint, "attributes"> {
    const { help = "", unit = "" } = this.#families.get(family) ?? {};
    return {
      ...scrapedFrom(this.#source),
      name,
      description: help,
      unit: unit || unitOfName(name),
      kind,
      temporality: kind === "gauge" || kind === "summary" ? "unspecified" : "cumulative",
      isMonotonic: kind === "sum",
      timeUs,
    };
  }
}

/** Fields that all points of a target share. */
export function scrapedFrom({ service, instance }: Pick<ScrapeSource, "service" | "instance">) {
  return {
    service,
    serviceVersion: "",
    serviceInstance: instance,
    environment: "",
    hostName: "",
    resource: JSON.stringify({ "service.instance.id": instance, "service.name": service }),
    scopeName: "prometheus",
    scopeVersion: "",
    startTimeUs: 0,
    hasNoValue: false,
    exemplars: [],
  };
}

/** Converts cumulative counts to counts per bucket. Undefined if they decrease, or if the total is unknown. */
function bucketsOf({ parts, count }: Grouped): Pick<MetricPoint, "bounds" | "counts" | "count"> | undefined {
  const sorted = parts.sort(([a], [b]) => a - b);
  const total = sorted.at(-1)?.[0] === Number.POSITIVE_INFINITY ? sorted.pop()?.[1] : count;
  if (total === undefined) return undefined;
  const bounds = sorted.map(([bound]) => bound);
  const counts: number[] = [];
  let seen = 0;
  for (const below of [...sorted.map(([, each]) => each), total]) {
    counts.push(below - seen);
    seen = below;
  }
  const isSound =
    counts.every((each) => Number.isSafeInteger(each) && each >= 0) &&
    bounds.every((bound, at) => at === 0 || bound > (bounds[at - 1] ?? 0));
  return isSound ? { bounds, counts, count: total } : undefined;
}

function quantilesOf({ parts, count = 0 }: Grouped): Pick<MetricPoint, "quantiles" | "count"> | undefined {
  if (!Number.isSafeInteger(count) || count < 0) return undefined;
  return { count, quantiles: parts.sort(([a], [b]) => a - b).map(([quantile, value]) => ({ quantile, value })) };
}

function attributesOf(labels: readonly [string, string][]): string {
  const sorted = [...labels].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${sorted.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(",")}}`;
}

function isTextType(text: string): text is TextType {
  return text === "counter" || text === "gauge" || text === "histogram" || text === "summary";
}

const unitWords: Record<string, string> = { seconds: "s", milliseconds: "ms", bytes: "By", ratio: "1", celsius: "Cel", volts: "V" };

function unitOf(word: string): string {
  return unitWords[word.trim()] ?? word.trim().slice(0, 64);
}

/** Names end with their unit, by the convention that client libraries follow. */
function unitOfName(name: string): string {
  const word = /_([a-z]+)$/.exec(name.replace(/_total$/, ""))?.[1] ?? "";
  return unitWords[word] ?? "";
}
