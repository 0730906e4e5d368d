/**
 * Templates of log lines, found while they arrive. Lines of one service with as many words and the same first word share a shelf. A word
 * becomes `<*>` when the lines of a shelf differ in nothing but it and it had many values, so that `failed` and `succeeded` stay apart; on a
 * full shelf, when most of the other words agree. Everything is bounded: what does not fit gets a template of few words.
 */

import { createHash } from "node:crypto";
import { maskLogText } from "./mask-log-text.ts";

/** The template of a line. */
export interface LogTemplate {
  /** 12 hex digits; the same for the same text, wherever it was found. */
  readonly id: string;
  readonly text: string;
  /** Ids of templates that this one replaces. */
  readonly replaces: readonly string[];
}

export interface LogTemplatesOptions {
  /** Values of a word before it counts as changing. Default 8. */
  maxValues?: number;
  /** Templates of one shelf. Default 32. */
  maxShelf?: number;
  /** Templates of one service. Default 500. */
  maxTemplates?: number;
  /** Services; the rest share one slot. Default 200. */
  maxServices?: number;
  /** Cached masked lines with their template. Default 5,000. */
  maxRemembered?: number;
}

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
  shelves: Map<string, Cluster[]>;
  count: number;
}

const anything = "<*>";
const maxShelfKeys = 64;
/** Share of equal words that makes two lines alike on a full shelf. */
const leastAlike = 0.5;

export class LogTemplates {
  readonly #options: Required<LogTemplatesOptions>;
  readonly #services = new Map<string, ServiceTemplates>();
  readonly #remembered = new Map<string, Cluster>();

  constructor(options: LogTemplatesOptions = {}) {
    this.#options = { maxValues: 8, maxShelf: 32, maxTemplates: 500, maxServices: 200, maxRemembered: 5_000, ...options };
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
    const place = this.#of(service);
    const shelf = this.#shelf(place, tokens);
    if (shelf.some((cluster) => fits(cluster.tokens, tokens))) return;
    const others = shelf.filter((cluster) => !fits(tokens, cluster.tokens));
    if (others.length >= this.#options.maxShelf || place.count >= this.#options.maxTemplates) return;
    place.count += others.length + 1 - shelf.length;
    shelf.splice(0, shelf.length, ...others, new Cluster(tokens));
  }

  #of(service: string): ServiceTemplates {
    const name = this.#services.has(service) || this.#services.size < this.#options.maxServices ? service : "";
    let place = this.#services.get(name);
    if (place === undefined) {
      place = { shelves: new Map(), count: 0 };
      this.#services.set(name, place);
    }
    return place;
  }

  #shelf(place: ServiceTemplates, tokens: readonly string[]): Cluster[] {
    const own = `${tokens.length} ${tokens[0]}`;
    const isOpen = place.shelves.has(own) || place.shelves.size < maxShelfKeys * 8;
    const key = isOpen ? own : `${tokens.length} ${anything}`;
    let shelf = place.shelves.get(key);
    if (shelf === undefined) {
      shelf = [];
      place.shelves.set(key, shelf);
    }
    return shelf;
  }

  #match(place: ServiceTemplates, tokens: readonly string[]): Cluster {
    const { maxShelf, maxTemplates, maxValues } = this.#options;
    const shelf = this.#shelf(place, tokens);
    const found = shelf.find((cluster) => fits(cluster.tokens, tokens));
    if (found) return found;
    const alike = differingInOne(shelf, tokens, maxValues);
    if (alike) return this.#merge(place, shelf, alike, tokens);
    if (shelf.length < maxShelf && place.count < maxTemplates) {
      const cluster = new Cluster(tokens);
      shelf.push(cluster);
      place.count++;
      return cluster;
    }
    const nearest = nearestOf(shelf, tokens);
    if (nearest) return this.#merge(place, shelf, [nearest], tokens);
    return this.#rest(shelf, tokens);
  }

  #merge(place: ServiceTemplates, shelf: Cluster[], alike: readonly Cluster[], tokens: readonly string[]): Cluster {
    const merged = tokens.map((token, index) => (alike.every((cluster) => cluster.tokens[index] === token) ? token : anything));
    const gone = shelf.filter((cluster) => alike.includes(cluster) || fits(merged, cluster.tokens));
    const cluster = new Cluster(
      merged,
      gone.map(({ id }) => id),
    );
    for (const one of gone) one.mergedInto = cluster;
    shelf.splice(0, shelf.length, ...shelf.filter((one) => !gone.includes(one)), cluster);
    place.count += 1 - gone.length;
    return cluster;
  }

  /** One catch-all template per shelf, which does not count towards the limits. */
  #rest(shelf: Cluster[], tokens: readonly string[]): Cluster {
    const merged = tokens.map((token, index) => (index === 0 ? token : anything));
    const cluster = new Cluster(merged);
    const known = shelf.find(({ id }) => id === cluster.id);
    if (known === undefined && shelf.length <= this.#options.maxShelf) shelf.push(cluster);
    return known ?? cluster;
  }
}

function fits(template: readonly string[], tokens: readonly string[]): boolean {
  return template.length === tokens.length && template.every((token, index) => token === anything || token === tokens[index]);
}

/** Clusters that differ from the line in one and the same word only, when there are enough of them. */
function differingInOne(shelf: readonly Cluster[], tokens: readonly string[], enough: number): Cluster[] | undefined {
  if (shelf.length < enough) return undefined;
  const byPosition = new Map<number, Cluster[]>();
  for (const cluster of shelf) {
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

function nearestOf(shelf: readonly Cluster[], tokens: readonly string[]): Cluster | undefined {
  let best: Cluster | undefined;
  let bestEqual = Math.max(1, Math.ceil(tokens.length * leastAlike) - 1);
  for (const cluster of shelf) {
    let equal = 0;
    for (let index = 0; index < tokens.length; index++) if (cluster.tokens[index] === tokens[index]) equal++;
    if (equal > bestEqual) [best, bestEqual] = [cluster, equal];
  }
  return best;
}
