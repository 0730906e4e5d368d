import type { MeasureKind } from "./diagnosis.ts";

const host = /^(?:node|host|machine|system)(?:[._A-Z]|$)/;
const client = /client|outgoing|downstream/i;
const success = /avail|success/i;
const errors = /err(?:or)?s?(?:[^a-z]|$)|fail|exception|5xx/i;
const latency = /lat(?:ency)?(?:[^a-z]|$)|latency|duration|response.?time|elapsed/i;
const resource =
  /cpu|mem(?:ory)?(?:[^a-z]|$)|memory|rss|heap|disk|throttl|thread|socket|descriptor|open.?files|gc(?:[^a-z]|$)|queue.?(?:depth|length)|pool|saturation|event.?loop/i;

/** What a metric is about, by its name and unit: OpenTelemetry's names, Prometheus' and those that people make up. */
export function measureKindOf(name: string, unit = ""): { kind: MeasureKind; isSuccess: boolean } {
  const of = (kind: MeasureKind, isSuccess = false) => ({ kind, isSuccess });
  if (host.test(name)) return of("host");
  if (success.test(name)) return of("errors", true);
  if (errors.test(name)) return of("errors");
  if (latency.test(name)) return of(client.test(name) ? "calls" : "latency");
  if (resource.test(name) || unit === "By") return of("resource");
  return of("traffic");
}
