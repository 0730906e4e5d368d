import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { never, noHold, testOrder, testRule, useRunners } from "../command-runner.fixture.ts";

const runners = useRunners();
const { create } = runners;

describe("approvals", () => {
  const rules = [testRule({ name: "ask first", action: "require_approval", program: ["touch"] })];

  it("holds a command until it is approved", async () => {
    const { runner, audit } = create({ rules });
    const file = join(runners.directory, "touched");
    const order = testOrder({ argv: ["touch", file] });
    let heldId: string | undefined;
    const starting = runner.start(order, never, ({ approvalId, rule, expiresAtMs }) => {
      heldId = approvalId;
      expect(rule).toBe("ask first");
      expect(expiresAtMs).toBeGreaterThan(Date.now());
    });
    await expect.poll(() => heldId).toBe(order.commandId);
    await expect(readFile(file)).rejects.toThrow("ENOENT");
    runner.decide(order.commandId, { isApproved: true, decidedBy: "token:boss", reason: "go" });
    const { ended } = await starting;
    expect(await ended).toMatchObject({ exitCode: 0 });
    await readFile(file);
    expect(audit.map(({ phase }) => phase)).toEqual(["held", "decided", "begun", "ended"]);
    expect(audit[1]).toMatchObject({ reason: "approved by token:boss: go" });
    expect(() => runner.decide(order.commandId, { isApproved: true, decidedBy: "x", reason: "" })).toThrow("is not waiting");
  });

  it("rejects a command, expires, and ends when the caller disconnects", async () => {
    const { runner, audit } = create({ rules, approvalTimeoutMs: 200 });
    const file = join(runners.directory, "touched");
    const refused = testOrder({ argv: ["touch", file] });
    const refusing = runner.start(refused, never, () =>
      queueMicrotask(() => runner.decide(refused.commandId, { isApproved: false, decidedBy: "boss", reason: "no" })),
    );
    await expect(refusing).rejects.toMatchObject({ code: "not-permitted", message: expect.stringContaining("not approved by boss: no") });
    await expect(runner.start(testOrder({ argv: ["touch", file] }), never, noHold)).rejects.toThrow("no approval in time");
    const caller = new AbortController();
    await expect(runner.start(testOrder({ argv: ["touch", file] }), caller.signal, () => caller.abort())).rejects.toMatchObject({
      code: "cancelled",
    });
    await expect(readFile(file)).rejects.toThrow("ENOENT");
    expect(audit.filter(({ phase }) => phase === "begun")).toEqual([]);
    expect(audit.filter(({ phase }) => phase === "denied")).toHaveLength(3);
  });

  it("does not allow what the profile denies, unless the rule names a program", async () => {
    const { run } = create({
      profile: "diagnostics",
      rules: [testRule({ name: "all", action: "require_approval", environment: ["test"] })],
    });
    await expect(run({ text: "touch /tmp/x" })).rejects.toThrow("not in the diagnostics profile");
  });
});
