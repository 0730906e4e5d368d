import { describe, expect, it } from "vitest";
import type { ToolCallContext } from "../../tools/index.ts";
import { labelBackend, type ResolvedBackend } from "./label-backend.ts";
import { ServiceNames } from "./service-names.ts";

const api = { id: "unit:api", label: "api", name: "api", origin: "unit api.service", aliases: ["api.example.com"], formerNames: ["app"] };
const names = new ServiceNames({
  services: [api, { ...api, id: "program:postgres#01", label: "postgres:5432", name: "postgres", aliases: [], formerNames: [] }],
  texts: [
    { text: "unit:api", id: "unit:api", label: "api" },
    { text: "app", id: "unit:api", label: "api" },
    { text: "program:postgres#01", id: "program:postgres#01", label: "postgres:5432" },
  ],
});
const context = { signal: new AbortController().signal } as ToolCallContext;

/** A backend with one method, which records its requests. */
function backendOf<M extends keyof ResolvedBackend>(method: M, answer: unknown) {
  const asked: unknown[] = [];
  const answerTo = (request: unknown): Promise<unknown> => {
    asked.push(request);
    return Promise.resolve(answer);
  };
  const inner = { [method]: answerTo } as unknown as ResolvedBackend;
  return { asked, backend: labelBackend(inner, { names: () => Promise.resolve(names) }) };
}

describe("labelBackend()", () => {
  it("queries a service by all of its row keys, and answers with its label", async () => {
    const { asked, backend } = backendOf("red", { rows: [{ service: "unit:api", peer: "program:postgres#01" }] });
    const request = { service: "api", peer: "postgres:5432", by: "peer", sinceMs: 1, maxPoints: 0, limit: 1, compare: false } as const;
    expect(await backend.red(request, context)).toEqual({ rows: [{ service: "api", peer: "postgres:5432" }] });
    expect(asked).toEqual([{ ...request, service: ["unit:api", "app"], peer: ["program:postgres#01"] }]);
  });

  it("leaves external names unchanged", async () => {
    const { backend } = backendOf("red", { rows: [{ service: "unit:api", peer: "s3.amazonaws.com" }] });
    const request = { by: "peer", sinceMs: 1, maxPoints: 0, limit: 1, compare: false } as const;
    expect((await backend.red(request, context)).rows).toMatchObject([{ peer: "s3.amazonaws.com" }]);
  });

  it("gives services their id, origin and aliases", async () => {
    const { backend } = backendOf("services", [{ service: "unit:api", agentId: "a" }]);
    expect(await backend.services({ processes: false }, context)).toEqual([
      { service: "api", id: "unit:api", agentId: "a", origin: "unit api.service", aliases: ["app", "api.example.com"] },
    ]);
  });

  it("labels the ends of edges that are services, not hosts and addresses", async () => {
    const ends = { client: { kind: "host", name: "unit:api" }, server: { kind: "service", name: "unit:api" } };
    const { asked, backend } = backendOf("edges", {
      edges: [ends],
      page: { nodes: [{ id: "service:unit:api", kind: "service", name: "unit:api" }] },
    });
    const answer = await backend.edges({ sinceMs: 1, page: { nodes: 1, edges: 1, without: "postgres:5432" } }, context);
    expect(answer.edges).toEqual([{ client: { kind: "host", name: "unit:api" }, server: { kind: "service", name: "api" } }]);
    expect(answer.page?.nodes).toEqual([{ id: "service:api", kind: "service", name: "api" }]);
    expect(asked).toMatchObject([{ page: { without: "program:postgres#01" } }]);
  });

  it("merges telemetry under its own name with observations of agents", async () => {
    const { asked, backend } = backendOf("logs", { rows: [{ service: "app" }], services: ["app", "unit:api", "other"] });
    const answer = await backend.logs({ service: "api", sinceMs: 1, limit: 1 }, context);
    expect(answer).toMatchObject({ rows: [{ service: "api" }], services: ["api", "other"] });
    expect(asked).toMatchObject([{ service: ["unit:api", "app"] }]);
  });

  it("queries the edges between two services by every pair of their names", async () => {
    const { asked, backend } = backendOf("spanEdges", { edges: [{ client: "app", server: "web" }] });
    const answer = await backend.spanEdges({ sinceMs: 1, among: [{ client: "api", server: "web" }] }, context);
    expect(answer.edges).toEqual([{ client: "api", server: "web" }]);
    expect(asked).toMatchObject([
      {
        among: [
          { client: "unit:api", server: "web" },
          { client: "app", server: "web" },
        ],
      },
    ]);
  });

  it("captures by id, and shows the requested name", async () => {
    const asked: string[] = [];
    const inner = {
      capture: async function* (request: { service: string }) {
        asked.push(request.service);
        yield await Promise.resolve({ kind: "started", service: request.service });
      },
    } as unknown as ResolvedBackend;
    const backend = labelBackend(inner, { names: () => Promise.resolve(names) });
    const events = [];
    for await (const event of backend.capture({ service: "api" } as Parameters<typeof backend.capture>[0], context)) events.push(event);
    expect([asked, events]).toEqual([["unit:api"], [{ kind: "started", service: "api" }]]);
  });
});
