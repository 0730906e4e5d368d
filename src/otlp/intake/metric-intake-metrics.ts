import type { MetricsRegistry } from "../../base/metrics.ts";
import type { MetricIntakeCounts } from "./metric-intake.ts";

/** What is kept of metrics of programs, on /metrics. */
export function addMetricIntakeMetrics(metrics: MetricsRegistry, counts: () => Readonly<MetricIntakeCounts>): void {
  const read = (name: string, help: string, value: () => number): void => metrics.read({ name, help, kind: "counter" }, value);
  metrics.read(
    { name: "coral_metric_series", help: "Series of programs' metrics that were seen within the last hour" },
    () => counts().series,
  );
  read("coral_metric_points_total", "Data points that were stored since the start", () => counts().points);
  read("coral_metric_points_over_series_total", "Data points of series beyond the bound", () => counts().overSeries);
  read("coral_metric_points_unusable_total", "Data points from the future or with numbers that cannot be kept", () => counts().unusable);
}
