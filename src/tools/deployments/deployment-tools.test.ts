import { describe, expect, it } from "vitest";
import { colonyTools } from "../colony-tools.ts";
import { findTool } from "../contract/tool-list.ts";
import { colonyOf, context, serviceOf } from "../sample-colony.fixture.ts";
import type { Answer } from "../schemas/completeness.ts";
import type { DeploymentList } from "../schemas/deployment.ts";
import { deploymentOf } from "./deployment.fixture.ts";

describe("coral_query_deployments", () => {
  it("cuts, and resolves a name written in another case", async () => {
    const asked: (string | undefined)[] = [];
    const backend = colonyOf({
      services: async () => [serviceOf("web-1", "api", 80)],
      deployments: async ({ service, limit }) => {
        asked.push(service);
        return service === "API" ? [] : Array.from({ length: limit }, (_, index) => deploymentOf({ id: `dep-${index}` }));
      },
    });
    const answer = (await findTool(colonyTools, "coral_query_deployments", "read").call(
      backend,
      { service: "API", limit: 2 },
      context,
    )) as Answer<DeploymentList>;
    expect(asked).toEqual(["API", "api"]);
    expect(answer.deployments).toHaveLength(2);
    expect(answer.completeness.notes).toMatchObject([{ kind: "limit" }]);
  });
});

describe("coral_mark_deployment", () => {
  it("needs more than read, and passes its input on", async () => {
    expect(() => findTool(colonyTools, "coral_mark_deployment", "read")).toThrow("needs the permission");
    const marked: unknown[] = [];
    const backend = colonyOf({
      markDeployment: async (request) => {
        marked.push(request);
        return { deployment: deploymentOf({ foundBy: ["mark"] }), isNew: true };
      },
    });
    await findTool(colonyTools, "coral_mark_deployment", "debug").call(backend, { service: "api", version: "1.2", ago: "10m" }, context);
    expect(marked).toEqual([{ service: "api", version: "1.2", note: "", agoMs: 600_000 }]);
  });
});
