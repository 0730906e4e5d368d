/** Config files and contexts on the command line. */

import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { agentPaths, colonyPaths, listLocalColonies } from "../../src/config/index.ts";
import { coralJson, runCoral } from "../support/run-coral.ts";
import { makeTestHome, type TestHome } from "../support/test-home.ts";

let home: TestHome;
let colonyId: string;
let configFile: string;
let original: string;

beforeAll(async () => {
  home = makeTestHome();
  await runCoral(["init", "shop"], { home: home.path });
  [colonyId = ""] = await listLocalColonies(home.path);
  configFile = colonyPaths(home.path, colonyId).configFile;
  original = readFileSync(configFile, "utf8");
});
afterAll(() => home[Symbol.asyncDispose]());

const coral = (...args: string[]) => runCoral(args, { home: home.path });

describe("coral config validate", () => {
  it("reports file, line, column, key and allowed values, one problem per line", async () => {
    writeFileSync(
      configFile,
      `${original}pull:\n  intervall: 3s\nlog:\n  level: loud\nhealth:\n  degraded_after: 5\nlisten: abc\nstore:\n  max_size: 3 GB\nlevel: 1\nretention:\n  hosts: 3d\n`,
    );
    const { code, stdout, stderr } = await coral("config", "validate");
    writeFileSync(configFile, original);
    expect(code).toBe(64);
    expect(stdout.split("\n").filter((line) => line.startsWith(`${configFile}:`))).toEqual([
      expect.stringMatching(
        /:6:3: unknown key "pull\.intervall"; did you mean "pull\.interval"\? allowed keys: interval, concurrency, timeout/,
      ),
      expect.stringMatching(/:8:10: log\.level is "loud"; allowed values: debug, info, warn, error$/),
      expect.stringMatching(/:10:19: health\.degraded_after is 5; write a duration with a unit, such as 250ms, 30s/),
      expect.stringMatching(/:11:9: listen is "abc"; write host:port/),
      expect.stringMatching(/:13:13: store\.max_size is "3 GB"; write a number with a unit, such as 512B, 64KiB, 256MiB/),
      expect.stringMatching(/:14:1: unknown key "level"; did you mean "log\.level"\? allowed keys: id, name/),
      expect.stringMatching(/:16:3: unknown key "retention\.hosts"; did you mean "retention\.host"\? allowed keys: host, /),
    ]);
    expect(stderr).toBe("error: Found 7 problems; docs/config.md lists every key\n");
  });

  it.each([
    ["listen: [\n", /agent\.yaml:2:1: /],
    ["labels:\n\tzone: x\n", /agent\.yaml:2:1: indent with spaces, not with tabs/],
    ["host:\n  interval: 5s\nhost:\n  interval: 6s\n", /agent\.yaml:3:1: duplicate key/],
    ["host:\n  interval: 1ms\n", /agent\.yaml:2:13: host\.interval is "1ms"; it must be at least 1s and at most 10m/],
    ["- a\n", /agent\.yaml:1:1: the file is a list; write keys under it: colony, listen/],
    ["labels:\n  zone: 5\n", /agent\.yaml:2:9: labels\.zone is 5; write text; put the value in quotes/],
  ])("explains what is wrong with %j", async (text, expected) => {
    const file = join(home.path, "agent.yaml");
    writeFileSync(file, text);
    const { code, stdout } = await coral("config", "validate", file);
    expect(stdout).toMatch(expected);
    expect(code).toBe(64);
    const started = await coral("agent", "start", "--config", file);
    expect(started.code).toBe(64);
    expect(started.stderr).toContain(`Cannot read agent config "${file}": line `);
  });

  it("accepts the file that init wrote, and an empty file", async () => {
    const file = join(home.path, "agent.yaml");
    writeFileSync(file, "# nothing\n");
    expect((await coral("config", "validate", file)).stdout).toBe(`${file}: valid (agent)\n`);
    expect(await coral("config", "validate")).toMatchObject({ code: 0, stderr: "" });
  });
});

describe("coral config view", () => {
  it("shows flags > environment > file > defaults in the format of the file", async () => {
    writeFileSync(configFile, `${original}pull:\n  interval: 7s\nlog:\n  level: warn\n`);
    const { stdout } = await runCoral(["config", "view", "colony"], { home: home.path, env: { CORAL_LOG_LEVEL: "debug" } });
    writeFileSync(configFile, original);
    expect(stdout).toMatch(/^ +interval: 7s$/m);
    expect(stdout).toMatch(/^ +level: debug$/m);
    expect(stdout).toMatch(/^ +max_size: 4GiB$/m);
    const { agent } = await coralJson<{ agent: { file: string; listen: string } }>(["config", "view", "agent"], { home: home.path });
    expect(agent.file).toBe(`${agentPaths(home.path).configFile} (absent, defaults apply)`);
    expect(agent.listen).toBe("127.0.0.1:9001");
  });
});

describe("contexts", () => {
  let own: TestHome;
  let ownId: string;
  const coralOwn = (...args: string[]) => runCoral(args, { home: own.path });
  beforeEach(async () => {
    own = makeTestHome();
    ownId = (await coralOwn("init", "shop")).stdout.trim();
  });
  afterEach(() => own[Symbol.asyncDispose]());

  it("can be listed, selected and removed; the colony stays", async () => {
    await coralOwn("init", "other");
    expect((await coralOwn("config", "get-contexts")).stdout).toMatch(/^CURRENT +NAME +COLONY +REACHED AT\n +shop-dev .*\n\* +other-dev /);
    expect((await coralOwn("config", "use-context", "shop-dev")).stdout).toBe(`current context is shop-dev (colony ${ownId})\n`);
    const wrong = await coralOwn("config", "use-context", "shop-dve");
    expect(wrong).toMatchObject({ code: 4, stdout: "" });
    expect(wrong.stderr).toContain('Cannot find context "shop-dve": did you mean "shop-dev"?');
    expect((await coralOwn("config", "delete-context", "shop-dev")).stdout).toBe("context shop-dev deleted\n");
    expect(existsSync(colonyPaths(own.path, ownId).configFile)).toBe(true);
    const { contexts, currentContext } = await coralJson<{ contexts: { name: string }[]; currentContext: null }>(
      ["config", "get-contexts"],
      { home: own.path },
    );
    expect(contexts.map((context) => context.name)).toEqual(["other-dev"]);
    expect(currentContext).toBeNull();
    expect(statSync(join(own.path, "config.yaml")).mode & 0o777).toBe(0o600);
  });

  it("every command that reads an invalid contexts file reports its path and line", async () => {
    const file = join(own.path, "config.yaml");
    writeFileSync(file, "contexts:\n  - name: a\n    colony: x\n");
    const { code, stderr } = await coralOwn("status");
    rmSync(file);
    expect(code).toBe(64);
    expect(stderr).toMatch(/Cannot read contexts ".*config\.yaml": line 2, column 5: key "contexts\.0\.colony_id" is missing/);
  });
});
