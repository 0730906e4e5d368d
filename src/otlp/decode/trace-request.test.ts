import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { rowsOf } from "../columns/batch-rows.fixture.ts";
import {
  groupFields,
  message,
  shownValue,
  spanFields,
  type TestAttributes,
  type TestGroup,
  type TestSpan,
  type TestValue,
  traceRequest,
} from "./otlp-encoder.fixture.ts";
import { SpanDecoder } from "./trace-request.ts";

const receivedAtUs = 1_700_000_000_000_000;

function decode(...bodies: Uint8Array[]) {
  const decoder = new SpanDecoder();
  for (const body of bodies) decoder.add(body, receivedAtUs);
  return { rows: rowsOf(decoder.finish()), counts: decoder.counts };
}

const plain: TestSpan = {
  traceId: "0af7651916cd43dd8448eb211c80319c",
  spanId: "b7ad6b7169203331",
  name: "GET /users/{id}",
  startNs: 1_700_000_000_123_456_789n,
  endNs: 1_700_000_001_123_456_790n,
};

const one = (span: Partial<TestSpan>, group: Partial<TestGroup<TestSpan>> = {}) =>
  decode(traceRequest([{ resource: { "service.name": "api" }, ...group, items: [{ ...plain, ...span }] }])).rows[0] ?? {};

describe("SpanDecoder.add()", () => {
  const of = (resource: TestAttributes): Uint8Array => traceRequest([{ resource, items: [plain] }]);

  it("assigns each request its own resource, even with equal and different ones in between", () => {
    const { rows } = decode(
      of({ "service.name": "a" }),
      of({ "service.name": "b" }),
      of({ "service.name": "a" }),
      of({ "service.name": "b" }),
    );
    expect(rows.map(({ service, resource }) => [service, resource])).toEqual(
      ["a", "b", "a", "b"].map((name) => [name, JSON.stringify({ "service.name": name })]),
    );
  });

  it("counts truncated resource attributes for each request", () => {
    const decoder = new SpanDecoder({ maxCount: 1, maxValueBytes: 100, maxBytes: 1_000, maxDepth: 8 });
    for (let index = 0; index < 3; index++) decoder.add(of({ "service.name": "a", second: "x" }), receivedAtUs);
    expect([decoder.counts.rows, decoder.counts.cut]).toEqual([3, 3]);
  });
});

describe("SpanDecoder.reset()", () => {
  it("leaves no data of the previous batch", () => {
    const rich = traceRequest([
      {
        resource: { "service.name": "rich", "service.version": "7" },
        items: Array.from({ length: 3_000 }, (_, index) => ({
          ...plain,
          parentSpanId: "00f067aa0ba902b7",
          attributes: {
            "url.path": `/p/${index}`,
            "db.system": "mysql",
            "db.statement": `SELECT ${index}`,
            "http.status_code": 500n,
            own: "x",
          },
          events: [{ timeNs: plain.startNs, name: "exception", attributes: { "exception.type": "E" } }],
          status: { code: 2, message: "bad" },
          flags: 1,
          dropped: 3,
        })),
      },
    ]);
    const poor = traceRequest([{ resource: { "service.name": "poor" }, items: [plain, { ...plain, traceId: "00" }, plain] }]);
    const decoder = new SpanDecoder();
    decoder.add(rich, receivedAtUs);
    decoder.finish();
    decoder.reset();
    decoder.add(poor, receivedAtUs);
    expect({ rows: rowsOf(decoder.finish()), counts: decoder.counts }).toEqual(decode(poor));
  });
});

describe("SpanDecoder", () => {
  it("keeps ids, times and names unchanged", () => {
    expect(one({ parentSpanId: "00f067aa0ba902b7", kind: 2, traceState: "vendor=1,other=2", flags: 0x101 })).toMatchObject({
      trace_id: plain.traceId,
      span_id: plain.spanId,
      parent_span_id: "00f067aa0ba902b7",
      name: "GET /users/{id}",
      service: "api",
      kind: "server",
      time: 1_700_000_000_123_456n,
      duration_ns: 1_000_000_001n,
      trace_state: "vendor=1,other=2",
      flags: 0x101,
      status: "unset",
      weight: 1,
    });
  });

  it("has nulls for fields that were not sent", () => {
    const row = one({});
    for (const name of ["parent_span_id", "attributes", "events", "links", "status_message", "http_method", "dropped", "scope_name"]) {
      expect(row).not.toHaveProperty(name);
    }
  });

  it.each([
    [0, "unspecified"],
    [1, "internal"],
    [3, "client"],
    [4, "producer"],
    [5, "consumer"],
    [77, "unspecified"],
  ])("stores kind %d as %s", (kind, name) => {
    expect(one({ kind })["kind"]).toBe(name);
  });

  it("keeps status and its message", () => {
    expect(one({ status: { code: 2, message: "no such user" } })).toMatchObject({ status: "error", status_message: "no such user" });
    expect(one({ status: { code: 1 } })).toMatchObject({ status: "ok" });
  });

  it("keeps every type of attribute", () => {
    const attributes: TestAttributes = {
      text: 'a "quoted" \\ line\nand \u0001 é 漢 😀',
      empty: "",
      yes: true,
      no: false,
      whole: -42n,
      big: 2n ** 40n,
      real: 1.5,
      one: 1,
      tiny: 5e-324,
      none: null,
      bytes: Buffer.from([0, 255, 7]),
      list: ["a", 1n, true, ["b"], { c: null }],
      map: { a: { b: { c: [1.25] } }, d: "e" },
    };
    const json = one({ attributes })["attributes"] as string;
    expect(JSON.parse(json)).toEqual(shownValue(attributes));
    expect(json).toContain('"one":1.0');
    expect(json).toContain('"whole":-42');
  });

  it("keeps 64-bit integers exact, and writes numbers that JSON does not have as strings", () => {
    const json = one({ attributes: { max: 2n ** 63n - 1n, min: -(2n ** 63n), nan: Number.NaN, inf: Number.NEGATIVE_INFINITY } })[
      "attributes"
    ];
    expect(json).toBe('{"max":9223372036854775807,"min":-9223372036854775808,"nan":"NaN","inf":"-Infinity"}');
  });

  it.each<[string, TestAttributes, Record<string, unknown>]>([
    [
      "current HTTP",
      {
        "http.request.method": "GET",
        "http.route": "/a/{b}",
        "http.response.status_code": 503n,
        "url.path": "/a/1",
        "server.address": "api",
      },
      { http_method: "GET", http_route: "/a/{b}", http_status_code: 503, url_path: "/a/1", server_address: "api" },
    ],
    [
      "old HTTP",
      { "http.method": "POST", "http.status_code": 200n, "http.target": "/a?token=secret", "net.peer.name": "db" },
      { http_method: "POST", http_status_code: 200, url_path: "/a", server_address: "db" },
    ],
    ["a status as text", { "http.status_code": "404" }, { http_status_code: 404 }],
    [
      "a database",
      { "db.system": "postgresql", "db.statement": "SELECT * FROM users WHERE id = 42 AND name = 'bob'", "db.name": "shop" },
      { db_system: "postgresql", db_statement: "SELECT * FROM users WHERE id = ? AND name = ?", db_name: "shop" },
    ],
    [
      "a database by current names",
      { "db.system.name": "mysql", "db.query.text": 'SELECT "bob"', "db.namespace": "shop" },
      { db_system: "mysql", db_statement: "SELECT ?", db_name: "shop" },
    ],
    [
      "RPC",
      { "rpc.system": "grpc", "rpc.service": "shop.Cart", "rpc.method": "Add", "rpc.grpc.status_code": 14n },
      { rpc_system: "grpc", rpc_service: "shop.Cart", rpc_method: "Add", rpc_status_code: 14 },
    ],
    [
      "messaging",
      { "messaging.system": "kafka", "messaging.destination.name": "orders", "messaging.operation": "process" },
      { messaging_system: "kafka", messaging_destination: "orders", messaging_operation: "process" },
    ],
  ])("stores %s in their own columns", (_name, attributes, columns) => {
    const row = one({ attributes });
    expect(row).toMatchObject(columns);
    expect(row).not.toHaveProperty("attributes");
  });

  it("keeps a known attribute of an unexpected type, or with a second value, in the JSON", () => {
    expect(one({ attributes: { "http.route": 5n, "http.method": "GET", "http.request.method": "PUT" } })).toMatchObject({
      http_method: "GET",
      attributes: '{"http.route":5,"http.request.method":"PUT"}',
    });
    expect(one({ attributes: { "http.status_code": "teapot" } })["attributes"]).toBe('{"http.status_code":"teapot"}');
  });

  it("removes values from statements in every field", () => {
    const row = one({ attributes: { "db.query.text": "SELECT 'one-secret'", "db.statement": "SELECT 'other-secret'" } });
    expect(JSON.stringify(row, (_key, value: unknown) => (typeof value === "bigint" ? Number(value) : value))).not.toContain("secret");
    expect(one({ attributes: { "db.statement": "my-secret-key" } })).not.toHaveProperty("db_statement");
  });

  it("keeps events with their offset from the start, and the type of an exception", () => {
    const row = one({
      events: [
        {
          timeNs: plain.startNs + 5n,
          name: "exception",
          attributes: { "exception.type": "TypeError", "exception.message": "x" },
          dropped: 2,
        },
        { timeNs: plain.startNs - 1n, name: "early" },
      ],
    });
    expect(row["exception_type"]).toBe("TypeError");
    expect(JSON.parse(row["events"] as string)).toEqual([
      { offset_ns: 5, name: "exception", attributes: { "exception.type": "TypeError", "exception.message": "x" }, dropped: 2 },
      { offset_ns: -1, name: "early" },
    ]);
  });

  it("keeps links", () => {
    const link = { traceId: "a".repeat(32), spanId: "b".repeat(16), traceState: "x=y", attributes: { why: "batch" }, dropped: 1 };
    expect(JSON.parse(one({ links: [link] })["links"] as string)).toEqual([
      { trace_id: link.traceId, span_id: link.spanId, trace_state: "x=y", attributes: { why: "batch" }, dropped: 1 },
    ]);
  });

  it("keeps resource, scope and schemas", () => {
    const resource = {
      "service.name": "api",
      "service.version": "1.2",
      "service.instance.id": "i-1",
      "deployment.environment": "prod",
      n: 3n,
    };
    const row = one(
      {},
      {
        resource,
        resourceSchemaUrl: "https://r",
        scope: { name: "http", version: "0.1", attributes: { a: true } },
        scopeSchemaUrl: "https://s",
      },
    );
    expect(row).toMatchObject({
      service: "api",
      service_version: "1.2",
      service_instance: "i-1",
      environment: "prod",
      scope_name: "http",
      scope_version: "0.1",
      scope_attributes: '{"a":true}',
      resource_schema_url: "https://r",
      scope_schema_url: "https://s",
    });
    expect(JSON.parse(row["resource"] as string)).toEqual(shownValue(resource));
  });

  it("uses the default name for a service without a name", () => {
    expect(one({}, { resource: {} })["service"]).toBe("unknown_service");
  });

  it("finds a resource that follows its spans, and a start time that follows events", () => {
    const span = spanFields({ ...plain, events: [{ timeNs: plain.startNs + 9n, name: "e" }] });
    const group = groupFields({ resource: { "service.name": "late" }, items: [[...span].reverse()] }, (fields) => fields);
    const body = message([[1, "message", [...group].reverse()]]);
    const [row] = decode(body).rows;
    expect(row).toMatchObject({ service: "late", events: '[{"offset_ns":9,"name":"e"}]', duration_ns: 1_000_000_001n });
  });

  it("uses the arrival time for a missing start, and never a negative duration", () => {
    expect(one({ startNs: 0n, endNs: 5n })).toMatchObject({ time: BigInt(receivedAtUs), duration_ns: 0n });
    expect(one({ startNs: 10_000n, endNs: 9_000n })).toMatchObject({ time: 10n, duration_ns: 0n });
  });

  it.each<[string, Partial<TestSpan>]>([
    ["no trace id", { traceId: "" }],
    ["a trace id of zeros", { traceId: "0".repeat(32) }],
    ["a short trace id", { traceId: "0af76519" }],
    ["no span id", { spanId: "" }],
  ])("counts a span with %s and continues", (_name, wrong) => {
    const items = [plain, { ...plain, ...wrong, attributes: { lost: "yes" } }, { ...plain, name: "next", attributes: { kept: "yes" } }];
    const { rows, counts } = decode(traceRequest([{ items }]));
    expect(counts).toMatchObject({ rows: 2, malformed: 1 });
    expect(rows.map((row) => row["name"])).toEqual([plain.name, "next"]);
    expect(rows[0]).not.toHaveProperty("attributes");
    expect(rows[1]?.["attributes"]).toBe('{"kept":"yes"}');
  });

  it("replaces bytes that are not valid UTF-8", () => {
    const broken = message([
      [1, "bytes", Buffer.from(plain.traceId, "hex")],
      [2, "bytes", Buffer.from(plain.spanId, "hex")],
      [5, "bytes", Buffer.from([0x61, 0xff, 0x62, 0xc3])],
      [
        9,
        "message",
        [
          [1, "text", "k"],
          [2, "message", [[1, "bytes", Buffer.from([0xed, 0xa0, 0x80, 0x7a])]]],
        ],
      ],
    ]);
    const body = message([[1, "message", [[2, "message", [[2, "bytes", broken]]]]]]);
    const [row] = decode(body).rows;
    expect(row?.["name"]).toBe("a\ufffdb\ufffd");
    expect(row?.["attributes"]).toBe('{"k":"\ufffd\ufffd\ufffdz"}');
  });

  it("bounds the size, the number and the depth of attributes", () => {
    let deep: TestValue = "end";
    for (let depth = 0; depth < 50; depth++) deep = [deep];
    const many = Object.fromEntries(Array.from({ length: 400 }, (_, index) => [`key-${index}`, "v"]));
    const row = one({ attributes: { long: "é".repeat(20_000), deep } });
    const { long, deep: shown } = JSON.parse(row["attributes"] as string) as { long: string; deep: unknown };
    expect(long).toBe("é".repeat(8_192));
    expect(JSON.stringify(shown)).toBe(`${"[".repeat(8)}null${"]".repeat(8)}`);
    // Added to the number that the sender dropped.
    expect(row["dropped"]).toBe(2);
    expect(one({ attributes: many, dropped: 3 })["dropped"]).toBe(147);
    expect(Object.keys(JSON.parse(one({ attributes: many })["attributes"] as string) as object)).toHaveLength(256);
    const huge = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`key-${index}`, "v".repeat(16_000)]));
    expect((one({ attributes: huge })["attributes"] as string).length).toBeLessThanOrEqual(65_540);
  });

  it.each<[string, TestValue, number | undefined]>([
    ["rpc.grpc.status_code", 14n, 14],
    ["rpc.response.status_code", "UNAVAILABLE", 14],
    ["rpc.response.status_code", "7", 7],
    ["rpc.response.status_code", "-32601", undefined],
  ])("reads the status of a call from %s = %s", (key, value, code) => {
    expect(one({ attributes: { [key]: value } })["rpc_status_code"]).toBe(code);
  });

  it("decodes many random spans in several requests as they were sent", () => {
    const random = new SeededRandom(7);
    const groups = Array.from({ length: 40 }, () => randomGroup(random));
    const bodies = groups.map((group) => traceRequest([group]));
    const { rows, counts } = decode(...bodies);
    const sent = groups.flatMap((group) => group.items.map((item) => ({ group, item })));
    expect(counts).toEqual({ rows: sent.length, malformed: 0, rejected: 0, cut: 0 });
    for (const [index, { group, item }] of sent.entries()) {
      const row = rows[index] ?? {};
      expect(row).toMatchObject({
        service: group.resource?.["service.name"],
        name: item.name,
        trace_id: item.traceId,
        span_id: item.spanId,
        time: item.startNs / 1_000n,
        duration_ns: item.endNs - item.startNs,
      });
      expect(JSON.parse((row["attributes"] as string | undefined) ?? "{}")).toEqual(shownValue(item.attributes ?? {}));
      expect(((JSON.parse((row["events"] as string | undefined) ?? "[]") as { name: string }[]) ?? []).map(({ name }) => name)).toEqual(
        (item.events ?? []).map(({ name }) => name),
      );
    }
  });

  it("survives truncated, changed and random requests", () => {
    const random = new SeededRandom(11);
    for (let round = 0; round < 1_000; round++) {
      const body = Buffer.from(traceRequest([randomGroup(random)]));
      const changes = 1 + random.below(8);
      for (let change = 0; change < changes; change++) body[random.below(body.length)] = random.below(256);
      const part = random.below(3) === 0 ? body.subarray(0, random.below(body.length)) : body;
      const decoder = new SpanDecoder();
      decoder.add(part, receivedAtUs);
      const batch = decoder.finish();
      expect(batch.rows).toBe(decoder.counts.rows);
      for (const { attributes, events, links, resource } of rowsOf(batch) as Record<string, string | undefined>[]) {
        for (const json of [attributes, events, links, resource]) if (json !== undefined) JSON.parse(json);
      }
    }
  });
});

function hexOf(random: SeededRandom, bytes: number): string {
  return Array.from({ length: bytes }, (_, index) =>
    (index === 0 ? 1 + random.below(255) : random.below(256)).toString(16).padStart(2, "0"),
  ).join("");
}

function randomValue(random: SeededRandom, depth: number): TestValue {
  switch (random.below(depth > 3 ? 6 : 8)) {
    case 0:
      return BigInt(random.word()) - BigInt(random.word());
    case 1:
      return random.word() / 977;
    case 2:
      return random.below(2) === 0;
    case 3:
      return null;
    case 4:
      return Buffer.from(hexOf(random, random.below(20) + 1), "hex");
    case 5:
      return 'text é\n"'.repeat(random.below(4));
    case 6:
      return Array.from({ length: random.below(4) }, () => randomValue(random, depth + 1));
    default:
      return randomAttributes(random, depth + 1);
  }
}

function randomAttributes(random: SeededRandom, depth = 0): TestAttributes {
  return Object.fromEntries(
    Array.from({ length: random.below(6) }, (_, index) => [`k${index}.${random.below(1000)}`, randomValue(random, depth)]),
  );
}

function randomGroup(random: SeededRandom): TestGroup<TestSpan> {
  const items = Array.from({ length: 1 + random.below(8) }, (): TestSpan => {
    const startNs = 1_700_000_000_000_000_000n + BigInt(random.word()) * 1_000_003n;
    return {
      traceId: hexOf(random, 16),
      spanId: hexOf(random, 8),
      name: `op-${random.below(30)}`,
      kind: random.below(6),
      startNs,
      endNs: startNs + BigInt(random.word()) * BigInt(1 + random.below(1_000)),
      attributes: randomAttributes(random),
      events: Array.from({ length: random.below(3) }, () => ({
        timeNs: startNs + 1n,
        name: `e${random.below(9)}`,
        attributes: randomAttributes(random),
      })),
    };
  });
  const groupFieldsOf: TestGroup<TestSpan> = { resource: { "service.name": `svc-${random.below(5)}`, ...randomAttributes(random) }, items };
  return groupFieldsOf;
}
