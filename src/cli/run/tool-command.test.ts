import { describe, expect, it } from "vitest";
import { colonyTools } from "../../tools/index.ts";
import { toolCommand } from "./tool-command.ts";
import { toolInputs } from "./tool-inputs.ts";

describe("toolInputs", () => {
  it("match the tools' schemas; npm run docs writes them", () => {
    expect(toolInputs).toEqual(Object.fromEntries(colonyTools.map(({ name, inputFields }) => [name, inputFields])));
  });

  it("describe every field that a command offers", () => {
    const silent = Object.entries(toolInputs).flatMap(([tool, fields]) =>
      Object.entries(fields).flatMap(([field, spec]) => ("description" in spec ? [] : [`${tool}.${field}`])),
    );
    // Fields without an option: commands set them, or describe them.
    expect(silent).toEqual([
      "coral_list_agents.verbose",
      "coral_list_services.status",
      "coral_incidents.state",
      "coral_whatif.event",
      "coral_resolve_targets.command",
      "coral_resolve_targets.labels",
      "coral_resolve_targets.environment",
      "coral_resolve_targets.all",
      "coral_agent_exec.labels",
      "coral_agent_exec.environment",
      "coral_agent_exec.all",
      "coral_agent_exec.workingDirectory",
      "coral_agent_exec.readOnly",
      "coral_decide_approval.approve",
    ]);
  });
});

describe("toolCommand()", () => {
  const spec = toolCommand({
    name: "traces",
    summary: "Search traces",
    tool: "coral_query_traces",
    positional: ["service"],
    omit: ["route"],
    fields: { order: { name: "sort", short: "s" }, limit: { max: 50 }, since: { default: "2h" } },
    options: [{ name: "once", description: "Print once" }],
  });
  const option = (name: string) => spec.options?.find((candidate) => candidate.name === name);

  it("derives options from the tool's fields, in schema order, before the command's own", () => {
    expect(spec.options?.map(({ name }) => name)).toEqual([
      ...["trace-id", "min-duration", "error", "where", "since", "agent", "sort", "limit", "details", "once"],
    ]);
    expect(option("error")).toEqual({ name: "error", description: "Only traces with a failed span" });
    expect(option("agent")).toMatchObject({ value: "agent", completes: "agents" });
    expect(option("min-duration")).toMatchObject({ value: "duration", description: expect.stringMatching(/^Minimum duration of a span/) });
    expect(option("sort")).toMatchObject({ short: "s", value: "order", choices: ["newest", "slowest"], default: "newest" });
    expect(option("since")).toMatchObject({ default: "2h" });
  });

  it("derives arguments from positional fields, required as in the schema", () => {
    expect(spec.arguments).toMatchObject([{ name: "service", required: false, completes: "services" }]);
    const revoke = toolCommand({ name: "revoke", summary: "Revoke", tool: "coral_revoke_token", positional: ["tokenId"] });
    expect(revoke.arguments).toMatchObject([{ name: "token-id", required: true }]);
  });

  it("binds each field to its source, with the bounds of the schema", () => {
    const bound = (field: string) => spec.tool?.find((binding) => binding.field === field);
    expect(bound("service")).toEqual({ field: "service", type: "text", from: 0 });
    expect(bound("order")).toEqual({ field: "order", type: "text", from: { option: "sort" } });
    expect(bound("limit")).toEqual({ field: "limit", type: "integer", from: { option: "limit" }, min: 1, max: 50 });
    expect(bound("since")).toEqual({ field: "since", type: "duration", from: { option: "since" }, default: "2h" });
    expect(bound("route")).toBeUndefined();
  });
});
