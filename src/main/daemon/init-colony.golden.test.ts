/** The golden config that `coral init` writes for a colony, and its context. */

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { colonyPaths, loadColonyConfig, makePrivateDirectory, readContexts } from "../../config/index.ts";
import { initColony } from "./init-colony.ts";

/** After a comment, whose wording may change. */
const golden = (colonyId: string): string => `id: ${colonyId}\nname: shop\nenvironment: prod\n`;

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "coral-init-"));
});
afterEach(() => rm(home, { recursive: true, force: true }));

describe("the config of a new colony", () => {
  it("is written byte for byte below its comment", async () => {
    const { colonyId } = await initColony(home, { app: "shop", environment: "prod" });
    expect(colonyId).toMatch(/^shop-prod-[0-9a-f]{6}$/);
    const text = await readFile(colonyPaths(home, colonyId).configFile, "utf8");
    expect(text.replaceAll(/^#.*\n/gm, "")).toBe(golden(colonyId));
    expect(await readContexts(home)).toEqual({ currentContext: "shop-prod", contexts: [{ name: "shop-prod", colonyId }] });
  });

  it("is read back", async () => {
    const paths = colonyPaths(home, "shop-prod-0a1b2c");
    await makePrivateDirectory(paths.directory, undefined);
    await writeFile(paths.configFile, golden("shop-prod-0a1b2c"));
    const { config } = await loadColonyConfig({ home, colonyId: "shop-prod-0a1b2c", env: {} });
    expect(config).toMatchObject({ id: "shop-prod-0a1b2c", name: "shop", environment: "prod" });
  });
});
