import { describe, expect, it } from "vitest";
import { agentOf } from "../sample-colony.fixture.ts";
import { matchAgents } from "./match-agents.ts";

const agents = [
  agentOf("11112222-a", { hostname: "web.example.org" }),
  agentOf("11113333-b", { hostname: "web.other.org" }),
  agentOf("44445555-c", { hostname: "DB" }),
];
const idsOf = (text: string): string[] => matchAgents(agents, text).map((agent) => agent.agentId);

describe("matchAgents()", () => {
  it("matches an id, a host name, a short host name and the beginning of an id", () => {
    expect(idsOf("44445555-c")).toEqual(["44445555-c"]);
    expect(idsOf("db")).toEqual(["44445555-c"]);
    expect(idsOf("WEB.example.org")).toEqual(["11112222-a"]);
    expect(idsOf("web")).toEqual(["11112222-a", "11113333-b"]);
    expect(idsOf("4444")).toEqual(["44445555-c"]);
  });

  it("rejects unknown and ambiguous agents, with the known ones", () => {
    expect(() => idsOf("444")).toThrow("known agents: web.example.org (11112222-a)");
    expect(() => idsOf("1111")).toThrow("2 agent ids start with it");
    expect(() => matchAgents([], "x")).toThrow("no agent has joined");
    const many = Array.from({ length: 30 }, (_, index) => agentOf(`agent-${index}`));
    expect(() => matchAgents(many, "nobody")).toThrow("and 20 more; see coral agent list");
  });
});
