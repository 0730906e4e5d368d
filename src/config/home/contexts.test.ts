import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { listLocalColonies, readContexts, resolveColony, saveContext, writeContexts } from "./contexts.ts";

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "coral-contexts-"));
});
afterEach(() => rm(home, { recursive: true, force: true }));

const makeColony = (id: string): Promise<unknown> => mkdir(join(home, "colonies", id), { recursive: true });
const far = { name: "far", colonyId: "far-prod-123456", endpoint: "far:9000", caFingerprint: "ab".repeat(32), tokenFile: "/t" };

describe("contexts", () => {
  it("are empty without a file and round-trip through a private file", async () => {
    expect(await readContexts(home)).toEqual({ currentContext: undefined, contexts: [] });
    const all = { currentContext: "far", contexts: [far, { name: "near", colonyId: "near-dev-000000" }] };
    await writeContexts(home, all);
    expect(await readContexts(home)).toEqual(all);
    expect((await stat(join(home, "config.yaml"))).mode & 0o777).toBe(0o600);
  });

  it("saveContext() makes the first one current, replaces by name and keeps the others", async () => {
    await saveContext(home, { name: "a", colonyId: "a-dev-000000" });
    await saveContext(home, { name: "b", colonyId: "b-dev-000000" });
    await saveContext(home, { name: "a", colonyId: "a-dev-111111" });
    expect(await readContexts(home)).toEqual({
      currentContext: "a",
      contexts: [
        { name: "b", colonyId: "b-dev-000000" },
        { name: "a", colonyId: "a-dev-111111" },
      ],
    });
    await saveContext(home, { name: "c", colonyId: "c-dev-000000" }, { makeCurrent: true });
    expect((await readContexts(home)).currentContext).toBe("c");
  });

  it.each([
    ["contexts:\n  - name: a\n", 'line 2, column 5: key "contexts.0.colony_id" is missing'],
    [
      "contexts:\n  - name: a\n    colony_id: a\n    endpont: x:1\n",
      'line 4, column 5: unknown key "contexts.0.endpont"; did you mean "contexts.0.endpoint"?',
    ],
    ["contexts:\n  - name: a\n    colony_id: ../x\n", 'line 3, column 16: contexts.0.colony_id is "../x"; a colony id holds'],
    [
      "contexts:\n  - {name: a, colony_id: a}\n  - {name: a, colony_id: b}\n",
      'line 3, column 12: contexts.1.name is "a"; another context has this name',
    ],
    ["current_contxt: a\n", 'line 1, column 1: unknown key "current_contxt"; did you mean "current_context"?'],
    ["contexts: 5\n", "line 1, column 11: contexts is 5; write a list"],
    ["- a\n", "line 1, column 1: the file is a list; write keys under it: current_context, contexts"],
  ])("rejects the malformed file %j with its position", async (content, message) => {
    await writeFile(join(home, "config.yaml"), content);
    await expect(readContexts(home)).rejects.toThrow(`Cannot read contexts "${join(home, "config.yaml")}": ${message}`);
  });

  it("are written with a header", async () => {
    await saveContext(home, { name: "a", colonyId: "a-dev-000000" });
    expect(await readFile(join(home, "config.yaml"), "utf8")).toBe(
      "# Colonies that this user's coral commands know. Written by coral; see docs/config.md.\ncurrent_context: a\ncontexts:\n  - name: a\n    colony_id: a-dev-000000\n",
    );
  });
});

describe("resolveColony()", () => {
  it("resolves the only colony, with or without a context", async () => {
    await makeColony("shop-dev-1a2b3c");
    const socketFile = join(home, "colonies/shop-dev-1a2b3c/colony.sock");
    expect(await resolveColony(home, undefined)).toEqual({
      kind: "local",
      colonyId: "shop-dev-1a2b3c",
      contextName: undefined,
      socketFile,
    });
    await saveContext(home, { name: "shop-dev", colonyId: "shop-dev-1a2b3c" });
    expect(await resolveColony(home, undefined)).toMatchObject({ contextName: "shop-dev" });
  });

  it("resolves the current context, or the requested one by name or id", async () => {
    await makeColony("a-dev-000000");
    await makeColony("b-dev-000000");
    await saveContext(home, { name: "a", colonyId: "a-dev-000000" });
    await saveContext(home, far);
    expect(await resolveColony(home, undefined)).toMatchObject({ colonyId: "a-dev-000000" });
    expect(await resolveColony(home, "far")).toEqual({
      kind: "remote",
      colonyId: far.colonyId,
      contextName: "far",
      endpoint: "far:9000",
      caFingerprint: far.caFingerprint,
      tokenFile: "/t",
    });
    expect(await resolveColony(home, "far-prod-123456")).toMatchObject({ kind: "remote" });
    expect(await resolveColony(home, "b-dev-000000")).toMatchObject({ kind: "local", contextName: undefined });
  });

  it("prefers a local colony's socket over its endpoint", async () => {
    await makeColony(far.colonyId);
    await saveContext(home, far);
    expect(await resolveColony(home, "far")).toMatchObject({ kind: "local" });
  });

  it("reports the fix for no colony, several, an unknown one, or a dangling context", async () => {
    await expect(resolveColony(home, undefined)).rejects.toMatchObject({
      code: "not-found",
      message: expect.stringContaining('start one with "coral up"') as unknown,
    });
    await makeColony("a-dev-000000");
    await makeColony("b-dev-000000");
    await expect(resolveColony(home, undefined)).rejects.toMatchObject({
      code: "usage",
      message: expect.stringContaining("several (a-dev-000000, b-dev-000000)") as unknown,
    });
    await expect(resolveColony(home, "a-dev-00000")).rejects.toThrow('did you mean "a-dev-000000"?');
    await saveContext(home, { name: "gone", colonyId: "gone-dev-000000" });
    await expect(resolveColony(home, "gone")).rejects.toThrow("it has no directory under");
  });
});

it("listLocalColonies() ignores other entries", async () => {
  expect(await listLocalColonies(home)).toEqual([]);
  await makeColony("b-dev-000000");
  await makeColony("a-dev-000000");
  await mkdir(join(home, "colonies/Not One"));
  await writeFile(join(home, "colonies/file"), "");
  expect(await listLocalColonies(home)).toEqual(["a-dev-000000", "b-dev-000000"]);
});
