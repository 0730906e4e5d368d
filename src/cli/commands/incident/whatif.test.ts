import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import type { WhatIf } from "../../../tools/index.ts";
import { useColony } from "../../daemon.fixture.ts";

const here = useColony();

const answer: WhatIf = {
  ...{ service: "inc-shop-a1", event: "down", summary: "If inc-shop-a1 is down, 1 service is affected.", windowMs: 3_600_000 },
  affected: [
    {
      ...{ service: "inc-load", distance: 1, path: ["inc-load", "inc-shop-a1"], share: null, perSecond: 9.4, isEntry: false },
      ...{ routes: [], fallback: "" },
    },
  ],
  entryRoutes: [{ service: "inc-shop-a1", route: "GET /buy", perSecond: 9.4, isKnownToCall: true }],
  ...{ outsidePerSecond: 0, confidence: "medium" },
  unknown: ["which routes call it: no spans lead to it", "whether callers have a fallback: it has not failed in the last 30 days"],
};

it("prints the affected services as in docs/incidents.md", async () => {
  here.colony.tool("coral_whatif", answer);
  const { code, stdout } = await here.world.coral("whatif inc-shop-a1 down");
  expect(code).toBe(0);
  for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  const page = readFileSync(new URL("../../../../docs/incidents.md", import.meta.url), "utf8");
  expect(/\$ coral whatif inc-shop-a1 down\n([\s\S]*?)```/.exec(page)?.[1]).toBe(stdout);
});
