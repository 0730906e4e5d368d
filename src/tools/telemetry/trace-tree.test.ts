import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { buildTraceTree, type TreeNode, type TreeSpan } from "./trace-tree.ts";

/** `id<parent service:kind start+duration`, times in milliseconds, `!` after failed spans; service and kind are optional. */
function spansOf(text: string): TreeSpan[] {
  return text
    .trim()
    .split("\n")
    .map((line) => {
      const match = /^\s*(\w+)(?:<(\w+))?(?: (\w+))?(?::(\w+))? (-?[\d.]+)\+([\d.]+)(!?)\s*$/.exec(line);
      if (!match) throw new Error(`Cannot read "${line}"`);
      const [, spanId = "", parentSpanId = null, service = "s", kind = "internal", start = "", duration = "", failed = ""] = match;
      return {
        spanId,
        parentSpanId,
        service,
        kind,
        startUs: 1_700_000_000_000_000 + Number(start) * 1_000,
        durationNs: Number(duration) * 1_000_000,
        status: failed === "" ? "unset" : "error",
      };
    });
}

const ms = (ns: number | null): number | null => (ns === null ? null : ns / 1_000_000);
const shape = (nodes: readonly TreeNode[]): string => nodes.map(({ span, depth }) => `${".".repeat(depth)}${span.spanId}`).join(" ");
const selfOf = (nodes: readonly TreeNode[]) => Object.fromEntries(nodes.map(({ span, selfNs }) => [span.spanId, ms(selfNs)]));
const criticalOf = (nodes: readonly TreeNode[]) =>
  Object.fromEntries(nodes.flatMap(({ span, criticalNs }) => (criticalNs === null ? [] : [[span.spanId, ms(criticalNs)]])));

interface Case {
  what: string;
  spans: string;
  shape: string;
  self: Record<string, number>;
  critical: Record<string, number>;
}

const cases: Case[] = [
  { what: "one span", spans: "a 0+10", shape: "a", self: { a: 10 }, critical: { a: 10 } },
  { what: "a span without duration", spans: "a 0+0", shape: "a", self: { a: 0 }, critical: { a: 0 } },
  {
    what: "one after the other",
    spans: "a 0+100\nb<a 10+30\nc<a 50+40",
    shape: "a .b .c",
    self: { a: 30, b: 30, c: 40 },
    critical: { a: 30, b: 30, c: 40 },
  },
  {
    what: "at the same time: the longer one decides, both count once in the parent's self time",
    spans: "a 0+100\nb<a 10+30\nc<a 10+80",
    shape: "a .c .b",
    self: { a: 20, b: 30, c: 80 },
    critical: { a: 20, c: 80 },
  },
  {
    what: "overlapping: each is critical until the next one starts",
    spans: "a 0+100\nb<a 0+30\nc<a 20+40\nd<a 50+50",
    shape: "a .b .c .d",
    self: { a: 0, b: 30, c: 40, d: 50 },
    critical: { a: 0, b: 20, c: 30, d: 50 },
  },
  {
    what: "nested",
    spans: "a 0+100\nb<a 10+80\nc<b 20+30\nd<c 25+5",
    shape: "a .b ..c ...d",
    self: { a: 20, b: 50, c: 25, d: 5 },
    critical: { a: 20, b: 50, c: 25, d: 5 },
  },
  {
    what: "not awaited: it runs past its parent, in the same service",
    spans: "a 0+50\nb<a 10+90\nc<a 10+20",
    shape: "a .b .c",
    self: { a: 30, b: 90, c: 20 },
    critical: { a: 30, c: 20 },
  },
  {
    what: "overlapping: the parent has no more of the path than its self time",
    spans: "a 0+100\nb<a 20+40\nc<a 50+30",
    shape: "a .b .c",
    self: { a: 40, b: 40, c: 30 },
    critical: { a: 40, b: 30, c: 30 },
  },
  {
    what: "beside a longer one: the first to end at that time is critical",
    spans: "a 0+100\nb<a 0+99\nc<a 20+31\nd<a 50+50",
    shape: "a .b .c .d",
    self: { a: 0, b: 99, c: 31, d: 50 },
    critical: { a: 0, b: 20, c: 30, d: 50 },
  },
  {
    what: "microseconds longer than its parent in the same service",
    spans: "a 0+50\nb<a 1+49.02\nc<b 2+40",
    shape: "a .b ..c",
    self: { a: 1, b: 9.02, c: 40 },
    critical: { a: 1, b: 9, c: 40 },
  },
  {
    what: "up to a hundredth longer than its parent in the same service",
    spans: "a 0+1000\nb<a 500+510\nc<a 100+911",
    shape: "a .c .b",
    self: { a: 500, b: 510, c: 911 },
    critical: { a: 500, b: 500 },
  },
  {
    what: "not awaited: most of it runs after its parent",
    spans: "a 0+50\nb<a 49.9+0.5",
    shape: "a .b",
    self: { a: 50, b: 0.5 },
    critical: { a: 50 },
  },
  {
    what: "a little longer than its parent on another host",
    spans: "a web:client 0+50\nb<a api:server 10+41",
    shape: "a .b",
    self: { a: 10, b: 41 },
    critical: { a: 10, b: 40 },
  },
  {
    what: "a message that is worked on later",
    spans: "a web:producer 0+5\nb<a worker:consumer 4+100",
    shape: "a .b",
    self: { a: 5, b: 100 },
    critical: { a: 5 },
  },
  {
    what: "two ends of a call with the same id",
    spans: "a web:server 0+100\nb<a web:client 10+80\nb<a api:server 20+60\nc<b api:internal 30+10",
    shape: "a .b ..b ...c",
    self: { a: 20, b: 50, c: 10 },
    critical: { a: 20, b: 50, c: 10 },
  },
];

describe("buildTraceTree()", () => {
  it.each(cases)("reads $what", ({ spans, shape: wantedShape, self, critical }) => {
    const { nodes, missingParents } = buildTraceTree(spansOf(spans));
    expect(shape(nodes)).toBe(wantedShape);
    expect(selfOf(nodes)).toEqual(self);
    expect(criticalOf(nodes)).toEqual(critical);
    expect(missingParents).toBe(0);
  });

  it("makes spans with a missing parent roots, and counts each missing parent once", () => {
    const tree = buildTraceTree(spansOf("a 0+100\nb<x 10+20\nc<x 40+200\nd<c 50+10"));
    expect(shape(tree.nodes)).toBe("a b c .d");
    expect(tree.nodes.map(({ isOrphan }) => isOrphan)).toEqual([false, true, true, false]);
    expect(tree).toMatchObject({ missingParents: 1, durationNs: 240_000_000 });
    expect(criticalOf(tree.nodes)).toEqual({ a: 100 });
  });

  it("uses the longest subtree as the main one without a root", () => {
    expect(criticalOf(buildTraceTree(spansOf("b<x 10+20\nc<y 40+200\nd<c 50+10")).nodes)).toEqual({ c: 190, d: 10 });
  });

  it.each([
    ["a<a 0+10", "a"],
    ["a<b 0+10\nb<a 1+5", "a .b"],
    ["r 0+5\na<c 1+10\nb<a 2+5\nc<b 3+1", "r a .b ..c"],
  ])("breaks cycles: %j", (spans, wanted) => {
    expect(shape(buildTraceTree(spansOf(spans)).nodes)).toBe(wanted);
  });

  it("shifts a span of another host that starts before its parent, with its descendants", () => {
    const tree = buildTraceTree(
      spansOf("a web:client 100+50\nb<a api:server 20+30\nc<b api:internal 25+10\nd<b db:server 26+4\ne<b old:server 5+10"),
    );
    const starts = Object.fromEntries(tree.nodes.map(({ span, startNs, clockShiftNs }) => [span.spanId, [ms(startNs), ms(clockShiftNs)]]));
    expect(starts).toEqual({ a: [0, 0], b: [10, 90], c: [15, 90], d: [16, 90], e: [20, 115] });
    expect(tree).toMatchObject({ shiftedSpans: 2, durationNs: 50_000_000, startUs: 1_700_000_000_100_000 });
  });

  it.each([
    ["a web:client 100+50\nb<a api:server 900+30", 10, 1],
    ["a web:client 100+50!\nb<a api:server 900+30", 800, 0],
    ["a web:client 100+50\nb<a api:internal 900+30", 800, 0],
    ["a web:producer 100+50\nb<a api:consumer 900+30", 800, 0],
    ["a web:client 100+50\nb<a web:server 900+30", 800, 0],
  ])("shifts a server span that starts after its successful call ended, and nothing else: %j", (spans, startMs, shifted) => {
    const { nodes, shiftedSpans } = buildTraceTree(spansOf(spans));
    expect([ms(nodes[1]?.startNs ?? 0), shiftedSpans]).toEqual([startMs, shifted]);
  });

  it("shifts a span longer than its parent to the parent's start", () => {
    const tree = buildTraceTree(spansOf("a web 100+50\nb<a api 90+70"));
    expect(tree.nodes[1]).toMatchObject({ startNs: 0, clockShiftNs: 10_000_000 });
  });

  it("does not shift a span of the same service", () => {
    const tree = buildTraceTree(spansOf("a 100+50\nb<a 90+30"));
    expect(tree).toMatchObject({ shiftedSpans: 0, durationNs: 60_000_000 });
    expect(tree.nodes.map(({ startNs, selfNs }) => [ms(startNs), ms(selfNs)])).toEqual([
      [10, 30],
      [0, 30],
    ]);
  });

  it("keeps nanoseconds", () => {
    const spans = spansOf("a 0+1\nb<a 0.5+0.000123");
    expect(buildTraceTree(spans).nodes.map(({ selfNs }) => selfNs)).toEqual([999_877, 123]);
  });

  it("is empty for no spans", () => {
    expect(buildTraceTree([])).toEqual({ nodes: [], durationNs: 0, startUs: 0, missingParents: 0, shiftedSpans: 0 });
  });

  it("handles a chain of 100,000 and a fan-out of 100,000", () => {
    const base = { service: "s", kind: "internal", status: "unset", durationNs: 1_000_000_000 };
    const chain = Array.from({ length: 100_000 }, (_, index) => ({
      ...base,
      spanId: `${index}`,
      parentSpanId: index === 0 ? null : `${index - 1}`,
      startUs: index,
    }));
    const deep = buildTraceTree(chain.map((span) => ({ ...span, durationNs: span.durationNs - span.startUs * 2_000 })));
    expect(deep.nodes.at(-1)?.depth).toBe(99_999);
    expect(deep.nodes[0]?.descendants).toBe(99_999);
    const fan = buildTraceTree(
      chain.map((span, index) => ({ ...span, parentSpanId: index === 0 ? null : "0", durationNs: index === 0 ? 1_000_000_000 : 500 })),
    );
    expect(fan.nodes).toHaveLength(100_000);
    expect(fan.nodes[0]?.selfNs).toBe(1_000_000_000 - 99_999 * 500);
  });

  it("is consistent for any tree: the path is as long as the root, no part exceeds the self time, and the root's part equals its self time", () => {
    const random = new SeededRandom(7);
    for (let round = 0; round < 500; round++) {
      const count = 1 + random.below(40);
      const spans: TreeSpan[] = Array.from({ length: count }, (_, index) => ({
        spanId: `${index}`,
        parentSpanId: index === 0 ? null : `${random.below(index)}`,
        service: `s${random.below(3)}`,
        kind: random.pick(["internal", "client", "server", "consumer"]),
        status: "unset",
        startUs: index === 0 ? 1_000 : random.below(3_000),
        durationNs: index === 0 ? 1_000_000 : random.below(1_500_000),
      }));
      const { nodes } = buildTraceTree(spans);
      expect(nodes).toHaveLength(count);
      expect(nodes.reduce((sum, { criticalNs }) => sum + (criticalNs ?? 0), 0)).toBe(1_000_000);
      for (const { span, selfNs, criticalNs } of nodes) {
        expect(selfNs).toBeGreaterThanOrEqual(0);
        expect(selfNs).toBeLessThanOrEqual(span.durationNs);
        expect(criticalNs ?? 0).toBeGreaterThanOrEqual(0);
        expect(criticalNs ?? 0).toBeLessThanOrEqual(selfNs);
        if (span.spanId === "0") expect(criticalNs).toBe(selfNs);
      }
    }
  });

  it("keeps every span of a sequence on the path when each ends microseconds after its parent", () => {
    const random = new SeededRandom(11);
    for (let round = 0; round < 100; round++) {
      const depth = 2 + random.below(6);
      const spans: TreeSpan[] = Array.from({ length: depth }, (_, index) => {
        const startUs = 1_000 + index * 50;
        const endUs = 101_000 + index * (1 + random.below(100));
        return {
          spanId: `${index}`,
          parentSpanId: index === 0 ? null : `${index - 1}`,
          service: "s",
          kind: "internal",
          status: "unset",
          startUs,
          durationNs: (endUs - startUs) * 1_000,
        };
      });
      const { nodes } = buildTraceTree(spans);
      expect(nodes.filter(({ criticalNs }) => criticalNs === null)).toEqual([]);
      expect(nodes.reduce((sum, { criticalNs }) => sum + (criticalNs ?? 0), 0)).toBe(100_000_000);
    }
  });
});
