/** The golden contexts file of the CLI. */

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Contexts, readContexts, writeContexts } from "./contexts.ts";

const fingerprint = "20c374752ebe4277a9fddc28340f59856754d966d0d0c4ee00fc3000d16af0f7";
const contexts: Contexts = {
  currentContext: "shop-prod",
  contexts: [
    { name: "shop-dev", colonyId: "shop-dev-1a2b3c" },
    {
      name: "shop-prod",
      colonyId: "shop-prod-0a1b2c",
      endpoint: "colony.example:9443",
      caFingerprint: fingerprint,
      tokenFile: "/home/me/.coral/tokens/shop-prod.token",
    },
  ],
};

/** The file without its leading comment, whose wording may change. */
const golden = `current_context: shop-prod
contexts:
  - name: shop-dev
    colony_id: shop-dev-1a2b3c
  - name: shop-prod
    colony_id: shop-prod-0a1b2c
    endpoint: colony.example:9443
    ca_fingerprint: ${fingerprint}
    token_file: /home/me/.coral/tokens/shop-prod.token
`;

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "coral-home-"));
});
afterEach(() => rm(home, { recursive: true, force: true }));

describe("the contexts file", () => {
  it("matches byte for byte below its comment", async () => {
    await writeContexts(home, contexts);
    const text = await readFile(join(home, "config.yaml"), "utf8");
    expect(text.replaceAll(/^#.*\n/gm, "")).toBe(golden);
  });

  it("is read back", async () => {
    await writeFile(join(home, "config.yaml"), golden);
    expect(await readContexts(home)).toEqual(contexts);
  });
});
