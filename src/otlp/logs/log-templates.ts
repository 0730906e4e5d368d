/**
 * Finds templates of log lines as they arrive. Lines of one service with the same number of words and the same first word share a bucket. A word
 * becomes `<*>` if lines of a bucket differ only in it and it had many values; so `failed` and `succeeded` stay separate. In a full bucket it is enough
 * that most other words agree. Everything is bounded: lines that do not fit share a catch-all template.
 */

import { createHash } from "node:crypto";
import { maskLogText } from "./mask-log-text.ts";

/** The template of a line. */
export interface LogTemplate {
  /** 12 hex digits, derived from the text: equal on all hosts. */
  readonly id: string;
  readonly text: string;
  /** Ids of templates that this one replaces. */
  readonly replaces: readonly string[];
}

export interface LogTemplatesOptions {
  /** Values of a word before it counts as changing. Default 8. */
  maxValues?: number;
  /** Templates of one bucket. Default 32. */
  maxBucketTemplates?: number;
  /** Templates of one service. Default 500. */
  maxTemplates?: number;
  /** Services; the rest share one slot. Default 200. */
  maxServices?: number;
  /** Cached masked lines with their template. Default 5,000. */
  maxRemembered?: number;
}

/** A template with its words. After a merge, `mergedInto` leads from the old template to the new one. */
class Cluster implements LogTemplate {
  readonly id: string;
  readonly text: string;
  readonly tokens: readonly string[];
  readonly replaces: readonly string[];
  mergedInto: Cluster | undefined;

  constructor(tokens: readonly string[], replaces: readonly string[] = []) {
    this.tokens = tokens;
    this.text = tokens.join(" ");
    this.id = createHash("sha256").update(this.text).digest("hex").slice(0, 12);
    this.replaces = replaces;
  }
}

interface ServiceTemplates {
  buckets: Map<string, Cluster[]>;
  count: number;
}

const anything = "<*>";
/** Limits the buckets of one service to eight times this number; further lines share one bucket per word count. */
const maxBuckets = 64;
/** Share of equal words from which two lines are merged in a full bucket. */
const leastAlike = 0.5;

/** One per decode worker. The pool passes known templates to a new worker, so that workers agree. */
export class LogTemplates {
  readonly #options: Required<LogTemplatesOptions>;
  readonly #services = new Map<string, ServiceTemplates>();
  readonly #remembered = new Map<string, Cluster>();

  constructor(options: LogTemplatesOptions = {}) {
    this.#options = { maxValues: 8, maxBucketTemplates: 32, maxTemplates: 500, maxServices: 200, maxRemembered: 5_000, ...options };
  }

  /** Undefined for a text without words. */
  find(service: string, body: string): LogTemplate | undefined {
    const tokens = maskLogText(body);
    if (tokens.length === 0) return undefined;
    const key = `${service}\n${tokens.join(" ")}`;
    let cluster = this.#remembered.get(key);
    if (cluster === undefined) {
      cluster = this.#match(this.#of(service), tokens);
      if (this.#remembered.size >= this.#options.maxRemembered) this.#remembered.clear();
      this.#remembered.set(key, cluster);
    }
    while (cluster.mergedInto) cluster = cluster.mergedInto;
    return cluster;
  }

  /** Adds a template that another instance found, so that matching lines do not count as new. */
  learn(service: string, template: string): void {
    const tokens = template.split(" ");
    const templates = this.#of(service);
    const bucket = this.#bucket(templates, tokens);
    if (bucket.some((cluster) => fits(cluster.tokens, tokens))) return;
    const others = bucket.filter((cluster) => !fits(tokens, cluster.tokens));
    if (others.length >= this.#options.maxBucketTemplates || templates.count >= this.#options.maxTemplates) return;
    templates.count += others.length + 1 - bucket.length;
    bucket.splice(0, bucket.length, ...others, new Cluster(tokens));
  }

  #of(service: string): ServiceTemplates {
    const name = this.#services.has(service) || this.#services.size < this.#options.maxServices ? service : "";
    let templates = this.#services.get(name);
    if (templates === undefined) {
      templates = { buckets: new Map(), count: 0 };
      this.#services.set(name, templates);
    }
    return templates;
  }

  #bucket(templates: ServiceTemplates, tokens: readonly string[]): Cluster[] {
    const own = `${tokens.length} ${tokens[0]}`;
    const isOpen = templates.buckets.has(own) || templates.buckets.size < maxBuckets * 8;
    const key = isOpen ? own : `${tokens.length} ${anything}`;
    let bucket = templates.buckets.get(key);
    if (bucket === undefined) {
      bucket = [];
      templates.buckets.set(key, bucket);
    }
    return bucket;
  }

  #match(templates: ServiceTemplates, tokens: readonly string[]): Cluster {
    const { maxBucketTemplates, maxTemplates, maxValues } = this.#options;
    const bucket = this.#bucket(templates, tokens);
    const found = bucket.find((cluster) => fits(cluster.tokens, tokens));
    if (found) return found;
    const alike = differingInOne(bucket, tokens, maxValues);
    if (alike) return this.#merge(templates, bucket, alike, tokens);
    if (bucket.length < maxBucketTemplates && templates.count < maxTemplates) {
      const cluster = new Cluster(tokens);
      bucket.push(cluster);
      templates.count++;
      return cluster;
    }
    const nearest = nearestOf(bucket, tokens);
    if (nearest) return this.#merge(templates, bucket, [nearest], tokens);
    return this.#rest(bucket, tokens);
  }

  #merge(templates: ServiceTemplates, bucket: Cluster[], alike: readonly Cluster[], tokens: readonly string[]): Cluster {
    const merged = tokens.map((token, index) => (alike.every((cluster) => cluster.tokens[index] === token) ? token : anything));
    const gone = bucket.filter((cluster) => alike.includes(cluster) || fits(merged, cluster.tokens));
    const cluster = new Cluster(
      merged,
      gone.map(({ id }) => id),
    );
    for (const one of gone) one.mergedInto = cluster;
    bucket.splice(0, bucket.length, ...bucket.filter((one) => !gone.includes(one)), cluster);
    templates.count += 1 - gone.length;
    return cluster;
  }

  /** One catch-all template per bucket, which does not count towards the limits. */
  #rest(bucket: Cluster[], tokens: readonly string[]): Cluster {
    const merged = tokens.map((token, index) => (index === 0 ? token : anything));
    const cluster = new Cluster(merged);
    const known = bucket.find(({ id }) => id === cluster.id);
    if (known === undefined && bucket.length <= this.#options.maxBucketTemplates) bucket.push(cluster);
    return known ?? cluster;
  }
}

function fits(template: readonly string[], tokens: readonly string[]): boolean {
  return template.length === tokens.length && template.every((token, index) => token === anything || token === tokens[index]);
}

/** Clusters that differ from the line in the same single word, if there are enough of them. */
function differingInOne(bucket: readonly Cluster[], tokens: readonly string[], enough: number): Cluster[] | undefined {
  if (bucket.length < enough) return undefined;
  const byPosition = new Map<number, Cluster[]>();
  for (const cluster of bucket) {
    let position = -1;
    let differences = 0;
    for (let index = 0; index < tokens.length && differences < 2; index++) {
      if (cluster.tokens[index] === tokens[index]) continue;
      position = index;
      differences++;
    }
    if (differences !== 1) continue;
    const list = byPosition.get(position);
    if (list) list.push(cluster);
    else byPosition.set(position, [cluster]);
  }
  return [...byPosition.values()].find((clusters) => clusters.length >= enough);
}

function nearestOf(bucket: readonly Cluster[], tokens: readonly string[]): Cluster | undefined {
  let best: Cluster | undefined;
  let bestEqual = Math.max(1, Math.ceil(tokens.length * leastAlike) - 1);
  for (const cluster of bucket) {
    let equal = 0;
    for (let index = 0; index < tokens.length; index++) if (cluster.tokens[index] === tokens[index]) equal++;
    if (equal > bestEqual) [best, bestEqual] = [cluster, equal];
  }
  return best;
}
