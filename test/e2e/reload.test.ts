/** SIGHUP reloads the config: keys that need a restart are reported, and an invalid file changes nothing. */

import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { expect, it } from "vitest";
import { agentPaths, colonyPaths, listLocalColonies } from "../../src/config/index.ts";
import { type DaemonProcess, spawnNode, startAgent, startColony } from "../support/daemon.ts";
import { coralFile } from "../support/run-coral.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

function messages(daemon: DaemonProcess, level?: string): string[] {
  return daemon.logLines().flatMap((line) => (level === undefined || line["level"] === level ? [String(line["message"])] : []));
}

async function hangUp(daemon: DaemonProcess, expected: RegExp): Promise<void> {
  const before = messages(daemon).length;
  daemon.signal("SIGHUP");
  await waitFor(
    `a line like ${expected}`,
    () =>
      messages(daemon)
        .slice(before)
        .some((message) => expected.test(message)),
    {
      details: () => daemon.lastLines(),
    },
  );
}

it("a colony applies a new log level and pull interval at once, keeps the old config if the new one is invalid, and reports keys that need a restart", async () => {
  await using home = makeTestHome();
  await using colony = await startColony({ home: home.path, config: "pull:\n  interval: 5m\n" });
  await using agent = await startAgent({ home: home.path, config: "host:\n  interval: 1s\n" });
  await agent.waitUntilConnected();
  const original = readFileSync(colony.paths.configFile, "utf8");
  expect(messages(colony, "debug")).toEqual([]);

  writeFileSync(colony.paths.configFile, original.replace("5m", "500ms").concat("log:\n  level: debug\n"));
  await hangUp(colony, /^Config reloaded$/);
  const rows = async (): Promise<number> => Number((await colony.sql("SELECT count(*) AS n FROM host"))[0]?.["n"]);
  const first = await rows();
  await waitFor("more rows than one pull delivers", async () => (await rows()) >= first + 3);

  writeFileSync(colony.paths.configFile, `${original}log:\n  level: loud\n`);
  await hangUp(colony, /^Cannot reload the config; keeping the old one$/);
  const failure = colony.logLines().findLast((line) => line["level"] === "error");
  expect(JSON.stringify(failure?.["error"])).toContain('log.level is \\"loud\\"; allowed values: debug, info, warn, error');
  expect(colony.hasEnded).toBe(false);
  const second = await rows();
  await waitFor("rows at the old pace", async () => (await rows()) >= second + 2);

  writeFileSync(colony.paths.configFile, `${original}store:\n  max_size: 1GiB\nretention:\n  host: 1h\n`);
  await hangUp(colony, /^Config reloaded; restart to apply changes of store, retention$/);
});

it("an agent applies new labels and intervals", async () => {
  await using home = makeTestHome();
  await using agent = await startAgent({ home: home.path, config: "host:\n  interval: 10m\nlog:\n  level: warn\n" });
  const count = async (): Promise<number> => (await agent.status()).store.rowsBySignal["host"] ?? 0;
  await waitFor("the first sample", async () => (await count()) === 1);
  writeFileSync(agentPaths(home.path).configFile, "host:\n  interval: 1s\n");
  await hangUp(agent, /^Config reloaded$/);
  await waitFor("samples at the new pace", async () => (await count()) >= 3);
  writeFileSync(agentPaths(home.path).configFile, "exec:\n  profile: full\n");
  await hangUp(agent, /^Runtime context changed \(shell no → yes, run no → yes/);
  writeFileSync(agentPaths(home.path).configFile, "host:\n  intervall: 1s\n");
  await hangUp(agent, /^Cannot reload the config/);
  expect(agent.hasEnded).toBe(false);
});

it("coral up reloads both files, and applies neither if one is invalid", async () => {
  await using home = makeTestHome();
  await using up = spawnNode("coral up", [coralFile, "up", "--port", "0", "--log-format", "json"], home.path);
  await up.waitForOutput(/Coral is running/);
  const [colonyId = ""] = await listLocalColonies(home.path);
  const file = colonyPaths(home.path, colonyId).configFile;
  appendFileSync(file, "log:\n  level: debug\n");
  writeFileSync(agentPaths(home.path).configFile, "nonsense: 1\n");
  await hangUp(up, /^Cannot reload the config/);
  expect(messages(up, "debug")).toEqual([]);
  writeFileSync(agentPaths(home.path).configFile, "labels:\n  zone: eu-1\n");
  await hangUp(up, /^Config reloaded$/);
  expect(up.hasEnded).toBe(false);
});
