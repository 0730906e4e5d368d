/**
 * A daemon's own metrics, in Prometheus text format 0.0.4. Gauges are read on each scrape; counters and histograms are kept here. Label
 * values must come from a bounded set; callers guarantee that.
 */

type Labels = Readonly<Record<string, string>>;

/** Labels and value of one line. */
export type Sample = readonly [labels: Labels, value: number];

interface Metric {
  name: string;
  help: string;
  kind: "counter" | "gauge" | "histogram";
  lines: () => string[] | Promise<string[]>;
}

export interface MetricOptions {
  /** snake_case with the unit; counters end in `_total`. */
  name: string;
  help: string;
}

const noLabels: Labels = {};

export class Counter {
  readonly #values = new Map<string, number>();

  inc(by = 1, labels: Labels = noLabels): void {
    const key = labelText(labels);
    this.#values.set(key, (this.#values.get(key) ?? 0) + by);
  }

  /** A counter without labels starts at 0: an absent line would look like an absent metric. */
  lines(name: string): string[] {
    return this.#values.size === 0 ? [`${name} 0`] : [...this.#values].map(([labels, value]) => `${name}${labels} ${valueText(value)}`);
  }
}

export class Histogram {
  /** Ascending upper bounds. */
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(value: number): void {
    const index = this.#bounds.findIndex((bound) => value <= bound);
    const at = index < 0 ? this.#bounds.length : index;
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
    this.#sum += value;
  }

  lines(name: string): string[] {
    let total = 0;
    const buckets = this.#counts.map((count, index) => {
      total += count;
      return `${name}_bucket{le="${this.#bounds[index] ?? "+Inf"}"} ${total}`;
    });
    return [...buckets, `${name}_sum ${valueText(this.#sum)}`, `${name}_count ${total}`];
  }
}

export class MetricsRegistry {
  readonly #metrics = new Map<string, Metric>();

  /** Reads a value on each scrape. Use `counter` for values that only rise. */
  read(
    options: MetricOptions & { kind?: "gauge" | "counter" },
    read: () => number | readonly Sample[] | Promise<number | readonly Sample[]>,
  ): void {
    const { name, help, kind = "gauge" } = options;
    this.#add({
      name,
      help,
      kind,
      lines: async () => {
        const value = await read();
        const samples: readonly Sample[] = typeof value === "number" ? [[noLabels, value]] : value;
        return samples.map(([labels, number]) => `${name}${labelText(labels)} ${valueText(number)}`);
      },
    });
  }

  counter({ name, help }: MetricOptions): Counter {
    const counter = new Counter();
    this.#add({ name, help, kind: "counter", lines: () => counter.lines(name) });
    return counter;
  }

  histogram({ name, help, bounds }: MetricOptions & { bounds: readonly number[] }): Histogram {
    const histogram = new Histogram(bounds);
    this.#add({ name, help, kind: "histogram", lines: () => histogram.lines(name) });
    return histogram;
  }

  /** The exposition text. */
  async text(): Promise<string> {
    const parts: string[] = [];
    for (const { name, help, kind, lines } of this.#metrics.values()) {
      parts.push(`# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}`, `# TYPE ${name} ${kind}`, ...(await lines()));
    }
    return `${parts.join("\n")}\n`;
  }

  #add(metric: Metric): void {
    if (!/^[a-z_][a-z0-9_]*$/.test(metric.name)) throw new Error(`Cannot add metric "${metric.name}": the name is not snake_case`);
    if (this.#metrics.has(metric.name)) throw new Error(`Cannot add metric "${metric.name}": the name already exists`);
    this.#metrics.set(metric.name, metric);
  }
}

function labelText(labels: Labels): string {
  const parts = Object.entries(labels).map(
    ([name, value]) => `${name}="${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`,
  );
  return parts.length === 0 ? "" : `{${parts.join(",")}}`;
}

function valueText(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "-Inf";
  return String(value);
}

/** A metric of this process, under its usual Prometheus name. */
export interface ProcessFigure {
  name: string;
  help: string;
  kind: "counter" | "gauge";
  read: () => number;
}

const lagIntervalMs = 200;
/** Stops measuring when the value is not read for this long. */
const lagForgottenMs = 5 * 60_000;

/**
 * Event loop lag: how late timers fire. Node's own monitor would wake the process 100 times a second, a third of an idle agent's CPU
 * budget. This timer fires five times a second, and only while the value is read; shorter blocks may fall between two timers.
 */
export class EventLoopLag {
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  #dueMs = 0;
  #maxMs = 0;
  #readMs = 0;

  /** `now` must be monotonic, in milliseconds. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** The maximum since the last reading, in seconds. The first reading starts the measurement and returns 0. */
  takeMaxSeconds(): number {
    this.#readMs = this.#now();
    if (this.#timer === undefined) {
      this.#dueMs = this.#readMs + lagIntervalMs;
      this.#timer = setInterval(() => this.#tick(), lagIntervalMs).unref();
    }
    // Includes a timer that is overdue now.
    const maxMs = Math.max(this.#maxMs, this.#readMs - this.#dueMs, 0);
    this.#maxMs = 0;
    return maxMs / 1_000;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#maxMs = 0;
  }

  #tick(): void {
    const nowMs = this.#now();
    this.#maxMs = Math.max(this.#maxMs, nowMs - this.#dueMs);
    this.#dueMs = nowMs + lagIntervalMs;
    if (nowMs - this.#readMs > lagForgottenMs) this.stop();
  }
}

const eventLoopLag = new EventLoopLag();

/** Process metrics under their usual Prometheus names. */
export const processFigures: readonly ProcessFigure[] = [
  {
    name: "process_cpu_seconds_total",
    help: "CPU time of this process, user and system, in seconds",
    kind: "counter",
    read: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    },
  },
  { name: "process_resident_memory_bytes", help: "Resident memory of this process", kind: "gauge", read: () => process.memoryUsage.rss() },
  {
    name: "process_start_time_seconds",
    help: "Start time of this process, in seconds since 1970",
    kind: "gauge",
    // Rounded down: a start time must not be in the future.
    read: () => Math.floor(performance.timeOrigin) / 1_000,
  },
  { name: "nodejs_heap_size_used_bytes", help: "JavaScript heap in use", kind: "gauge", read: () => process.memoryUsage().heapUsed },
  {
    name: "nodejs_external_memory_bytes",
    help: "Memory of JavaScript objects outside the heap",
    kind: "gauge",
    read: () => process.memoryUsage().external,
  },
  {
    name: "nodejs_eventloop_lag_max_seconds",
    help: "Longest delay of a timer since the last scrape; 0 on the first one",
    kind: "gauge",
    read: () => eventLoopLag.takeMaxSeconds(),
  },
  {
    name: "nodejs_eventloop_utilization_ratio",
    help: "Share of its lifetime in which the event loop was busy",
    kind: "gauge",
    read: () => performance.eventLoopUtilization().utilization,
  },
];
