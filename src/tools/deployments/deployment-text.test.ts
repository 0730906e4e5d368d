import { describe, expect, it } from "vitest";
import { deployedAgo, deployedText, sharesText, whatWasDeployed } from "./deployment-text.ts";

const share = (version: string, instances: number, requests: number | null) => ({ build: null, version, instances, agents: 1, requests });
const rolling = {
  build: null,
  previousBuild: null,
  version: "1.1",
  previousVersion: "1.0",
  state: "rolling" as const,
  shares: [share("1.1", 2, 200), share("1.0", 8, 800)],
};

describe("deployedText()", () => {
  it("does not say that a build was replaced while it still runs", () => {
    expect(deployedText(rolling)).toBe("is rolling out 1.1: 1.1 on 2 of 10 instances, 20% of requests; 1.0 on 8, 80%");
    expect(whatWasDeployed(rolling)).toBe("1.1 beside 1.0");
    expect(deployedText({ ...rolling, state: "complete", shares: [] })).toBe("was deployed: 1.1 instead of 1.0");
    expect(deployedText({ ...rolling, state: "rolled-back", shares: [] })).toBe("was rolled back: 1.1 is gone, 1.0 runs");
    expect(deployedText({ ...rolling, state: "variant" })).toContain("runs builds side by side: 1.1 on 2 of 10 instances");
  });
});

describe("deployedAgo()", () => {
  it("has a sentence for each state", () => {
    expect(deployedAgo(rolling, "3m")).toBe("1.1 has been rolling out for 3m (2 of 10 instances)");
    expect(deployedAgo({ ...rolling, state: "complete", shares: [] }, "3m")).toBe("1.1 was deployed 3m ago");
    expect(deployedAgo({ ...rolling, state: "rolled-back", shares: [] }, "3m")).toBe("1.1 was deployed 3m ago and rolled back");
    expect(deployedAgo({ ...rolling, state: "variant" }, "2h")).toBe("1.1 has run beside the build before it for 2h (2 of 10 instances)");
  });
});

describe("sharesText()", () => {
  it("names builds when versions are equal, and shares of requests only when known", () => {
    const shares = [
      { ...share("1.0", 1, null), build: "bbbb" },
      { ...share("1.0", 3, null), build: "aaaa" },
    ];
    expect(sharesText({ ...rolling, shares })).toBe("build bbbb on 1 of 4 instances; build aaaa on 3");
    expect(sharesText({ ...rolling, shares: [share("1.1", 0, 1), share("1.0", 0, 3)] })).toBe("1.1 with 25% of requests; 1.0 with 75%");
  });
});
