/** Golden SPIFFE ids: issued certificates carry them. */

import { describe, expect, it } from "vitest";
import { formatSpiffeId, parseSpiffeId, type SpiffeId } from "./spiffe-id.ts";

describe.each<[string, SpiffeId]>([
  ["spiffe://shop-prod-0a1b2c/colony", { kind: "colony", colonyId: "shop-prod-0a1b2c" }],
  ["spiffe://shop-prod-0a1b2c/agent/web-1.eu_west", { kind: "agent", colonyId: "shop-prod-0a1b2c", agentId: "web-1.eu_west" }],
])("%s", (uri, id) => {
  it("is written", () => {
    expect(formatSpiffeId(id)).toBe(uri);
  });

  it("is read back", () => {
    expect(parseSpiffeId(uri)).toEqual(id);
  });
});
