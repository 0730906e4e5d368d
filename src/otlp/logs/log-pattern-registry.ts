/**
 * Tracks log patterns: which are new, how often each occurs per window, and which suddenly occur far more often. A new service is learned first,
 * so that its start does not flood the events.
 */

import type { PatternCount } from "./annotate-logs.ts";

export interface LogPatternRegistryOptions {
  /** How long a new service is learned. Default 10 min. */
  learningMs?: number;
  /** Patterns of all services; the least recently seen are evicted. Default 20,000. */
  maxPatterns?: number;
  /** Events about new patterns per service and window; the rest is reported as one. Default 5. */
  maxNews?: number;
}

/** A known pattern, as stored. */
export interface KnownPattern {
  service: string;
  pattern: string;
  template: string;
  firstMs: number;
}

/** The records of one pattern and severity in a window, as stored. */
export interface PatternWindow extends Omit<PatternCount, "replaces"> {
  isNew: boolean;
}

/** Recorded as an event of the agent. */
export interface PatternEvent {
  kind: "log-pattern-new" | "log-burst";
  severity: "info" | "warning" | "error";
  service: string;
  message: string;
  details: Record<string, unknown>;
}

interface Entry {
  service: string;
  pattern: string;
  template: string;
  /** Not seen before the current window. */
  isFresh: boolean;
  /** Moving average of records by window. */
  usual: number;
  windows: number;
  burstAtMs: number;
  /** In the current window, by severity. */
  current: Map<string, { records: number; example: string }>;
}

/** Weight of the newest window in the moving average. */
const usualShare = 0.2;
/** Windows before a pattern can have a burst: the average needs some history. */
const minWindows = 5;
/** Minimum time between two burst events of one pattern. */
const burstPauseMs = 10 * 60_000;
/** A burst: records in a window, and multiples of the usual number. Harmless records need more. */
const burstLimits = { severe: { records: 20, times: 5 }, harmless: { records: 200, times: 10 } } as const;
const severeLevels = new Set(["warn", "error", "fatal"]);
const levels = ["", "trace", "debug", "info", "warn", "error", "fatal"];
/** Of a template in an event's message. */
const messageCharacters = 200;
/** Templates that a decode worker gets at its start. */
const maxWorkerTemplates = 5_000;
/** Services whose first time is tracked. Patterns of further ones always count as being learned. */
const maxServices = 2_000;

/** `add` counts what decode workers find. The owner calls `endWindow` once a minute and stores its rows. */
export class LogPatternRegistry {
  readonly #options: Required<LogPatternRegistryOptions>;
  /** In order of their last window with records. */
  readonly #entries = new Map<string, Entry>();
  /** First time seen, milliseconds since 1970. */
  readonly #services = new Map<string, number>();
  /** Patterns evicted because the registry was full. */
  forgotten = 0;

  constructor(options: LogPatternRegistryOptions = {}) {
    this.#options = { learningMs: 10 * 60_000, maxPatterns: 20_000, maxNews: 5, ...options };
  }

  /** Loads the patterns that an earlier process stored. */
  load(known: readonly KnownPattern[]): void {
    for (const { service, pattern, template, firstMs } of known) {
      this.#services.set(service, Math.min(firstMs, this.#services.get(service) ?? Number.POSITIVE_INFINITY));
      const entry = this.#entries.get(keyOf(service, pattern));
      if (entry) entry.isFresh = false;
      else this.#keep({ ...noEntry(service, pattern, template), isFresh: false });
    }
  }

  /** Known templates, for decode workers that start. */
  templates(): { service: string; template: string }[] {
    return [...this.#entries.values()].slice(-maxWorkerTemplates).map(({ service, template }) => ({ service, template }));
  }

  /** Counts the patterns of one sealed batch in the current window. */
  add(counts: readonly PatternCount[], nowMs: number): void {
    for (const { service, pattern, template, severity, records, example, replaces } of counts) {
      if (!this.#services.has(service) && this.#services.size < maxServices) this.#services.set(service, nowMs);
      const key = keyOf(service, pattern);
      let entry = this.#entries.get(key);
      if (entry === undefined) {
        entry = noEntry(service, pattern, template);
        this.#inherit(entry, replaces);
        this.#keep(entry);
      }
      const current = entry.current.get(severity);
      if (current) current.records += records;
      else entry.current.set(severity, { records, example });
    }
  }

  /** Ends the window: once a minute. */
  endWindow(nowMs: number): { rows: PatternWindow[]; events: PatternEvent[] } {
    const rows: PatternWindow[] = [];
    const news = new Map<string, Entry[]>();
    const events: PatternEvent[] = [];
    // A copy: the loop moves entries to the end.
    const entries = Array.from(this.#entries);
    for (const [key, entry] of entries) {
      const records = recordsOf(entry);
      if (records > 0) {
        const isNew = entry.isFresh && !this.#isLearning(entry.service, nowMs);
        for (const [severity, current] of entry.current) {
          const { service, pattern, template } = entry;
          rows.push({ service, pattern, template, severity, records: current.records, example: current.example, isNew });
        }
        if (isNew) news.set(entry.service, [...(news.get(entry.service) ?? []), entry]);
        else if (this.#isBurst(entry, records, nowMs)) {
          events.push(burstEvent(entry, records));
          entry.burstAtMs = nowMs;
        }
        this.#entries.delete(key);
        this.#entries.set(key, entry);
      }
      entry.usual += usualShare * (records - entry.usual);
      entry.windows++;
    }
    for (const [service, entries] of news) events.push(...this.#newsOf(service, entries));
    for (const entry of this.#entries.values()) {
      if (entry.current.size === 0) continue;
      entry.isFresh = false;
      entry.current.clear();
    }
    return { rows, events };
  }

  #isLearning(service: string, nowMs: number): boolean {
    return nowMs - (this.#services.get(service) ?? nowMs) < this.#options.learningMs;
  }

  #isBurst(entry: Entry, records: number, nowMs: number): boolean {
    if (entry.windows < minWindows || this.#isLearning(entry.service, nowMs) || nowMs - entry.burstAtMs < burstPauseMs) return false;
    const limit = severeLevels.has(worstOf(entry)) ? burstLimits.severe : burstLimits.harmless;
    return records >= limit.records && records >= limit.times * Math.max(1, entry.usual);
  }

  #newsOf(service: string, entries: readonly Entry[]): PatternEvent[] {
    const { maxNews } = this.#options;
    // The worst first, then the most frequent.
    const sorted = [...entries].sort((a, b) => levels.indexOf(worstOf(b)) - levels.indexOf(worstOf(a)) || recordsOf(b) - recordsOf(a));
    const named = sorted.slice(0, sorted.length > maxNews ? maxNews - 1 : maxNews).map(newEvent);
    const rest = sorted.slice(named.length);
    if (rest.length === 0) return named;
    const patterns = rest.slice(0, 50).map(({ pattern }) => pattern);
    const message = `${rest.length} more new log patterns of ${service}`;
    return [...named, { kind: "log-pattern-new", severity: severityOf(rest), service, message, details: { patterns, count: rest.length } }];
  }

  /** A template that replaces others is not new, and inherits the sum of their counts. */
  #inherit(entry: Entry, replaces: readonly string[]): void {
    for (const pattern of replaces) {
      const before = this.#entries.get(keyOf(entry.service, pattern));
      if (before === undefined) continue;
      if (!before.isFresh) entry.isFresh = false;
      entry.usual += before.usual;
      entry.windows = Math.max(entry.windows, before.windows);
      entry.burstAtMs = Math.max(entry.burstAtMs, before.burstAtMs);
    }
  }

  #keep(entry: Entry): void {
    if (this.#entries.size >= this.#options.maxPatterns) {
      const [oldest] = this.#entries.keys();
      if (oldest !== undefined) this.#entries.delete(oldest);
      this.forgotten++;
    }
    this.#entries.set(keyOf(entry.service, entry.pattern), entry);
  }
}

function noEntry(service: string, pattern: string, template: string): Entry {
  return {
    service,
    pattern,
    template,
    isFresh: true,
    usual: 0,
    windows: 0,
    burstAtMs: Number.NEGATIVE_INFINITY,
    current: new Map(),
  };
}

function keyOf(service: string, pattern: string): string {
  return `${pattern} ${service}`;
}

function recordsOf({ current }: Entry): number {
  let records = 0;
  for (const each of current.values()) records += each.records;
  return records;
}

function worstOf({ current }: Entry): string {
  return levels.findLast((level) => current.has(level)) ?? "";
}

function severityOf(entries: readonly Entry[]): PatternEvent["severity"] {
  return entries.some((entry) => ["error", "fatal"].includes(worstOf(entry))) ? "warning" : "info";
}

function newEvent(entry: Entry): PatternEvent {
  const { service, pattern, template } = entry;
  const records = recordsOf(entry);
  const level = worstOf(entry);
  const example = [...entry.current.values()][0]?.example ?? "";
  const message = `new ${level === "" ? "" : `${level} `}log pattern of ${service}: ${shortened(template)}`;
  return {
    kind: "log-pattern-new",
    severity: severityOf([entry]),
    service,
    message,
    details: { pattern, template, records, level, example },
  };
}

function burstEvent(entry: Entry, records: number): PatternEvent {
  const { service, pattern, template, usual } = entry;
  const level = worstOf(entry);
  const usually = Math.round(usual * 10) / 10;
  const message = `${records} log records of ${service} in a minute, usually ${usually}: ${shortened(template)}`;
  const severity = severeLevels.has(level) ? "warning" : "info";
  return { kind: "log-burst", severity, service, message, details: { pattern, template, records, usually, level } };
}

function shortened(text: string): string {
  return text.length <= messageCharacters ? text : `${text.slice(0, messageCharacters)}…`;
}
