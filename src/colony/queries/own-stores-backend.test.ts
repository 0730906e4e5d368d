import { describe, expect, it } from "vitest";
import { systemClock } from "../../base/clock.ts";
import type { SpanFact, TraceFacts } from "../../model/traces.ts";
import { createOwnStoresBackend } from "./own-stores-backend.ts";

const spanOf = (spanId: string, parentSpanId: string | null): SpanFact =>
  ({
    spanId,
    parentSpanId,
    agentId: "",
    service: "web",
    kind: "server",
    startUs: Date.now() * 1_000,
    durationNs: 1,
  }) as Partial<SpanFact> as SpanFact;
const factsOf = (...spans: SpanFact[]): TraceFacts => ({ spans, total: spans.length });
const request = { traceId: "a".repeat(32), maxSpans: 10, details: false };
const unused = async (): Promise<never> => await Promise.reject(new Error("not called in this test"));

/** A backend whose own store answers `own`, one entry per call. */
async function read(own: TraceFacts[], agents: { answers: TraceFacts[]; silent: string[] }) {
  const backend = createOwnStoresBackend({
    own: {
      traces: unused,
      logs: unused,
      logPatterns: unused,
      metric: unused,
      metricNames: unused,
      trace: async () => own.shift() ?? factsOf(),
    },
    agents: {
      one: unused,
      all: async <T>() => ({
        answers: agents.answers.map((answer, index) => ({ agentId: `web-${index}`, answer: answer as T, oldestMs: null })),
        silent: agents.silent,
      }),
    },
    clock: systemClock,
  });
  const { spans, directProblem } = await backend.trace(request, { signal: new AbortController().signal });
  return { spans: spans.map(({ spanId }) => spanId), directProblem };
}

describe("createOwnStoresBackend() of a trace", () => {
  it("names the agent that did not answer", async () => {
    const one = await read([factsOf()], { answers: [], silent: ["web-7"] });
    expect(one).toEqual({ spans: [], directProblem: 'Cannot query agent "web-7" for the newest spans: no response in time' });
    const more = await read([factsOf(spanOf("b", "a")), factsOf(spanOf("b", "a"))], {
      answers: [factsOf(spanOf("c", "b"))],
      silent: ["x", "y"],
    });
    expect(more).toEqual({ spans: ["b", "c"], directProblem: "Cannot query 2 agents for the newest spans: no response in time" });
  });

  it("finds spans that arrive while it waits for an agent", async () => {
    expect(await read([factsOf(), factsOf(spanOf("a", null))], { answers: [], silent: ["web-7"] })).toEqual({ spans: ["a"] });
  });

  it("reports no problem when every agent answered", async () => {
    expect(await read([factsOf()], { answers: [factsOf(spanOf("a", null))], silent: [] })).toEqual({ spans: ["a"] });
    expect(await read([factsOf()], { answers: [factsOf()], silent: [] })).toEqual({ spans: [] });
  });
});
