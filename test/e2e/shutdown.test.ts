import { expect, it } from "vitest";
import type { ColonyStatus } from "../../src/tools/index.ts";
import { startAgent, startColony } from "../support/daemon.ts";
import { runCoral } from "../support/run-coral.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

it("a stopped agent shows as disconnected at once, not after a timeout", async () => {
  await using home = makeTestHome();
  await using colony = await startColony({ home: home.path });
  await using agent = await startAgent({ home: home.path });
  await agent.waitUntilConnected();
  const counts = async (): Promise<ColonyStatus["agents"]> => (await colony.tool<ColonyStatus>("coral_get_status")).agents;
  await waitFor("the colony to have the tunnel, too", async () => (await counts()).connected === 1);
  expect(await agent.stop()).toEqual({ code: 0, signal: null });
  await waitFor("the agent to be disconnected", async () => (await counts()).connected === 0);
  expect((await runCoral(["status"], { home: home.path })).stdout).toMatch(/agents +1 healthy, 1 not connected\n/);
  expect((await runCoral(["colony", "status"], { home: home.path })).stdout).toContain("0 of 1 connected");
  expect(colony.output).toContain("is disconnected: closed by the agent");
});
