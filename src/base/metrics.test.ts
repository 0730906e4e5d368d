import { describe, expect, it, vi } from "vitest";
import { EventLoopLag, MetricsRegistry, processFigures } from "./metrics.ts";

describe("MetricsRegistry", () => {
  it("writes values read on scrape, with labels", async () => {
    const metrics = new MetricsRegistry();
    metrics.read({ name: "coral_agents", help: "Agents by health" }, () => [
      [{ health: "healthy" }, 3],
      [{ health: "unhealthy" }, 0],
    ]);
    metrics.read({ name: "cpu_seconds_total", help: "CPU", kind: "counter" }, async () => 0.25);
    expect(await metrics.text()).toBe(
      [
        "# HELP coral_agents Agents by health",
        "# TYPE coral_agents gauge",
        'coral_agents{health="healthy"} 3',
        'coral_agents{health="unhealthy"} 0',
        "# HELP cpu_seconds_total CPU",
        "# TYPE cpu_seconds_total counter",
        "cpu_seconds_total 0.25",
        "",
      ].join("\n"),
    );
  });

  it("counts by labels, and shows an unused counter as 0", async () => {
    const metrics = new MetricsRegistry();
    const calls = metrics.counter({ name: "calls_total", help: "Calls" });
    expect(await metrics.text()).toContain("calls_total 0\n");
    calls.inc(1, { tool: "a" });
    calls.inc(2, { tool: "a" });
    calls.inc(1, { tool: "b" });
    expect(await metrics.text()).toContain('calls_total{tool="a"} 3\ncalls_total{tool="b"} 1\n');
  });

  it("writes histograms with cumulative buckets", async () => {
    const metrics = new MetricsRegistry();
    const lag = metrics.histogram({ name: "lag_seconds", help: "Lag", bounds: [0.1, 1] });
    for (const value of [0.05, 0.1, 0.5, 7]) lag.observe(value);
    expect(await metrics.text()).toContain(
      [
        'lag_seconds_bucket{le="0.1"} 2',
        'lag_seconds_bucket{le="1"} 3',
        'lag_seconds_bucket{le="+Inf"} 4',
        "lag_seconds_sum 7.65",
        "lag_seconds_count 4",
      ].join("\n"),
    );
  });

  it("escapes characters that would break a line", async () => {
    const metrics = new MetricsRegistry();
    metrics.read({ name: "odd", help: "Two\nlines" }, () => [[{ path: 'a"b\\c\nd' }, Number.POSITIVE_INFINITY]]);
    expect(await metrics.text()).toBe('# HELP odd Two\\nlines\n# TYPE odd gauge\nodd{path="a\\"b\\\\c\\nd"} +Inf\n');
  });

  it("rejects duplicate names and names that are not snake_case", () => {
    const metrics = new MetricsRegistry();
    metrics.counter({ name: "calls_total", help: "Calls" });
    expect(() => metrics.counter({ name: "calls_total", help: "Calls" })).toThrow("the name already exists");
    expect(() => metrics.counter({ name: "Calls", help: "Calls" })).toThrow("not snake_case");
  });
});

const read = (name: string): number => processFigures.find((figure) => figure.name === name)?.read() ?? Number.NaN;

it("processFigures report what this process uses", () => {
  expect(read("process_resident_memory_bytes")).toBeGreaterThan(10 * 1024 ** 2);
  expect(read("nodejs_heap_size_used_bytes")).toBeGreaterThan(1024 ** 2);
  expect(read("nodejs_external_memory_bytes")).toBeGreaterThan(0);
  expect(read("process_start_time_seconds") * 1_000).toBeLessThanOrEqual(Date.now());
  expect(read("process_start_time_seconds") * 1_000).toBeGreaterThan(Date.now() - 3_600_000);
});

it("processFigures report utilisation and lag of the event loop", () => {
  expect(read("nodejs_eventloop_lag_max_seconds")).toBeGreaterThanOrEqual(0);
  const untilMs = performance.now() + 350;
  while (performance.now() < untilMs);
  expect(read("nodejs_eventloop_lag_max_seconds")).toBeGreaterThan(0.1);
  expect(read("nodejs_eventloop_utilization_ratio")).toBeGreaterThan(0);
});

it("processFigures report rising CPU time", () => {
  const before = read("process_cpu_seconds_total");
  const untilMs = performance.now() + 30;
  while (performance.now() < untilMs) Math.sqrt(untilMs);
  expect(read("process_cpu_seconds_total")).toBeGreaterThan(before);
});

it("EventLoopLag reports the delay caused by a blocking call, once", async () => {
  const lag = new EventLoopLag();
  try {
    expect(lag.takeMaxSeconds()).toBe(0);
    const untilMs = performance.now() + 700;
    while (performance.now() < untilMs);
    // Before the event loop turned, and not again afterwards.
    expect(lag.takeMaxSeconds()).toBeGreaterThan(0.4);
    await vi.waitFor(() => expect(lag.takeMaxSeconds()).toBeLessThan(0.4));
  } finally {
    lag.stop();
  }
});

it("EventLoopLag keeps the maximum until it is read, and stops when nothing reads it", () => {
  vi.useFakeTimers();
  let lateMs = 0;
  let startMs = 0;
  const lag = new EventLoopLag(() => Date.now() - startMs + lateMs);
  startMs = Date.now();
  try {
    lag.takeMaxSeconds();
    lateMs = 300;
    vi.advanceTimersByTime(200);
    vi.advanceTimersByTime(1_000);
    expect(lag.takeMaxSeconds()).toBeCloseTo(0.3);
    expect(lag.takeMaxSeconds()).toBeCloseTo(0);
    vi.advanceTimersByTime(6 * 60_000);
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    lag.stop();
    vi.useRealTimers();
  }
});
