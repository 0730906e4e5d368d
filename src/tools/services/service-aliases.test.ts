import { describe, expect, it } from "vitest";
import type { SpanProcessFact } from "../../model/traces.ts";
import { serviceOf } from "../sample-colony.fixture.ts";
import { serviceAliases } from "./service-aliases.ts";

const reported = (service: string, pid: unknown, program: unknown = "/usr/bin/node", agentId = "web-1"): SpanProcessFact => ({
  agentId,
  service,
  resource: JSON.stringify({ "service.name": service, "process.pid": pid, "process.executable.path": program }),
});
const seen = [
  serviceOf("web-1", "node", 8_080, { pids: [100, 101], exe: "/usr/bin/node" }),
  serviceOf("web-1", "script.py", 9_000, { pids: [200], exe: "/usr/bin/python3.13" }),
  serviceOf("web-1", "init", null, { pids: [1], exe: "/usr/lib/systemd/systemd" }),
  serviceOf("web-1", "gone", 1, { pids: [300], exe: "/usr/bin/node", status: "stale" }),
  serviceOf("web-2", "other", 8_080, { pids: [100], exe: "/usr/bin/node" }),
];

describe("serviceAliases()", () => {
  it.each<[string, SpanProcessFact[], [string, string][]]>([
    ["the same process", [reported("shop", 101)], [["shop", "node"]]],
    ["a pid as text", [reported("shop", "101")], [["shop", "node"]]],
    ["a program by its short name", [reported("shop", 200, "python3")], [["shop", "script.py"]]],
    ["a pid inside a container", [reported("shop", 1)], []],
    ["a pid at another agent", [reported("shop", 101, "/usr/bin/node", "web-2")], []],
    ["a process that is gone", [reported("shop", 300)], []],
    ["no program reported", [reported("shop", 101, null)], []],
    ["no pid reported", [reported("shop", undefined), reported("shop", -1), reported("shop", 1.5)], []],
    ["a name that a service has", [reported("script.py", 101)], []],
    ["two processes of one service", [reported("shop", 100), reported("shop", 101)], [["shop", "node"]]],
    ["one name for two services", [reported("shop", 100), reported("shop", 100, "/usr/bin/node", "web-2")], []],
    [
      "a resource that is not a JSON object",
      [
        { agentId: "web-1", service: "shop", resource: "{" },
        { agentId: "web-1", service: "shop", resource: "null" },
      ],
      [],
    ],
  ])("%s", (_what, processes, expected) => {
    expect([...serviceAliases(processes, seen)]).toEqual(expected);
  });
});
