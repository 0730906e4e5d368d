import { describe, expect, it } from "vitest";
import { systemClock } from "../../base/clock.ts";
import type { SpanFact, TraceFacts } from "../../model/traces.ts";
import { createDirectBackend } from "./direct-backend.ts";

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
const unused = async (): Promise<never> => await Promise.reject(new Error("not asked for"));

/** A trace of which the colony has what `own` tells, one answer per question. */
async function read(own: TraceFacts[], told: { answers: TraceFacts[]; silent: string[] }) {
  const backend = createDirectBackend({
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
        answers: told.answers.map((answer, index) => ({ agentId: `web-${index}`, answer: answer as T, oldestMs: null })),
        silent: told.silent,
      }),
    },
    clock: systemClock,
  });
  const { spans, directProblem } = await backend.trace(request, { signal: new AbortController().signal });
  return { spans: spans.map(({ spanId }) => spanId), directProblem };
}

describe("createDirectBackend() of a trace", () => {
  it("says which agent did not answer", async () => {
    const one = await read([factsOf()], { answers: [], silent: ["web-7"] });
    expect(one).toEqual({ spans: [], directProblem: 'Cannot ask agent "web-7" for what came just now: no answer in time' });
    const more = await read([factsOf(spanOf("b", "a")), factsOf(spanOf("b", "a"))], {
      answers: [factsOf(spanOf("c", "b"))],
      silent: ["x", "y"],
    });
    expect(more).toEqual({ spans: ["b", "c"], directProblem: "Cannot ask 2 agents for what came just now: no answer in time" });
  });

  it("finds what came while an agent was waited for", async () => {
    expect(await read([factsOf(), factsOf(spanOf("a", null))], { answers: [], silent: ["web-7"] })).toEqual({ spans: ["a"] });
  });

  it("says nothing of agents that had nothing to add", async () => {
    expect(await read([factsOf()], { answers: [factsOf(spanOf("a", null))], silent: [] })).toEqual({ spans: ["a"] });
    expect(await read([factsOf()], { answers: [factsOf()], silent: [] })).toEqual({ spans: [] });
  });
});
