// A typical instrumented program: the OpenTelemetry SDK, configured by OTEL_* variables only. Prints the telemetry that it emitted, as JSON.
import { context, metrics, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { logs, SeverityNumber } from "@opentelemetry/api-logs";
import { NodeSDK } from "@opentelemetry/sdk-node";

const requests = Number(process.argv[2] ?? 10);
const sdk = new NodeSDK();
sdk.start();
const tracer = trace.getTracer("shop", "1.2.3");
const meter = metrics.getMeter("shop");
const orders = meter.createCounter("shop.orders", { unit: "{order}", description: "orders taken" });
const waits = meter.createHistogram("shop.wait", { unit: "ms" });
meter.createObservableGauge("shop.stock").addCallback((result) => result.observe(42, { shelf: "a" }));
const logger = logs.getLogger("shop");
const traceIds = [];
const durations = [];
for (let index = 0; index < requests; index++) {
  const server = tracer.startSpan("GET /orders/:id", {
    kind: SpanKind.SERVER,
    attributes: {
      "http.request.method": "GET",
      "http.route": "/orders/:id",
      "http.response.status_code": index % 5 === 0 ? 500 : 200,
      "shop.tags": ["a", "b"],
      "shop.ratio": 0.25,
      "shop.big": 9_007_199_254_740_991,
      "shop.vip": index % 2 === 0,
    },
  });
  const inside = trace.setSpan(context.active(), server);
  context.with(inside, () => {
    const first = traceIds.at(0);
    const links = first === undefined ? [] : [{ context: { traceId: first, spanId: "00000000000000ab", traceFlags: 1 } }];
    const client = tracer.startSpan("SELECT orders", { kind: SpanKind.CLIENT, attributes: { "db.system": "postgresql" }, links });
    client.addEvent("rows", { count: index });
    client.end();
    logger.emit({ severityNumber: SeverityNumber.INFO, severityText: "INFO", body: `order ${index} taken`, attributes: { index } });
  });
  if (index % 5 === 0) {
    server.recordException(new Error(`no stock for ${index}`));
    server.setStatus({ code: SpanStatusCode.ERROR, message: "no stock" });
    logger.emit({ severityNumber: SeverityNumber.ERROR, severityText: "ERROR", body: `no stock for ${index}`, context: inside });
  }
  server.end();
  orders.add(1, { kind: index % 2 === 0 ? "vip" : "plain" });
  waits.record(index * 10);
  durations.push(index * 10);
  traceIds.push(server.spanContext().traceId);
}
await sdk.shutdown();
process.stdout.write(JSON.stringify({ traceIds, durations }));
