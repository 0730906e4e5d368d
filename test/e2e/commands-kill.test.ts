/** kill -9 of client, colony or agent during a command: no process of it survives, and the audit records how it ended. */

import { describe, expect, it } from "vitest";
import { processesWithVariable } from "../../src/host/index.ts";
import { spawnNode, startAgent, startColony } from "../support/daemon.ts";
import { coralFile, coralJson } from "../support/run-coral.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

const agentConfig = "exec:\n  profile: full\notlp:\n  enabled: false\n";
/** Ignores signals, and has a child in a session of its own. */
const stubborn = ["sh", "-c", "trap '' HUP TERM INT; setsid sleep 1000 & sleep 1001; sleep 1002"];

describe("kill -9 in the middle of a command", () => {
  it.each(["client", "colony", "agent"] as const)("of the %s leaves nothing behind", async (victim) => {
    await using home = makeTestHome();
    await using colony = await startColony({ home: home.path });
    let agent = await startAgent({ home: home.path, config: agentConfig });
    try {
      await agent.waitUntilConnected();
      await using client = spawnNode("client", [coralFile, "exec", "--all", "--json", "--", ...stubborn], home.path);
      const commandId = await waitFor("the command to begin", () => /"commandId":"([0-9a-f-]{36})"/.exec(client.output)?.[1], {
        details: () => client.lastLines(),
      });
      const left = (): number[] => processesWithVariable(`CORAL_COMMAND_ID=${commandId}`);
      await waitFor("the shell and both of its children", () => left().length >= 3);
      await { client, colony, agent }[victim].kill("SIGKILL");
      await waitFor("all processes of the command to be gone", () => left().length === 0);
      if (victim === "agent") agent = await startAgent({ home: home.path });
      await using again = victim === "colony" ? await startColony({ home: home.path }) : undefined;
      expect(again === undefined).toBe(victim !== "colony");
      await waitFor("the end in the audit", async () => {
        const text = JSON.stringify(await coralJson<unknown>(["audit", "list"], { home: home.path }));
        return text.includes(commandId) && (victim === "agent" ? /lost/ : /cancelled/).test(text);
      });
    } finally {
      await agent.stop();
    }
  });
});
