/** The golden file of services that users registered with `coral connect`. */

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { ManagedServiceRegistry } from "./managed-services.ts";

const golden = `{
  "version": 1,
  "services": [
    {
      "name": "api",
      "port": 8080,
      "health": "/health",
      "type": "http",
      "connectedAt": "2026-01-01T00:00:00.000Z"
    },
    {
      "name": "db",
      "port": 5432,
      "connectedAt": "2026-01-01T00:00:00.000Z"
    }
  ]
}
`;
const specs = [
  { name: "api", port: 8_080, health: "/health", type: "http" },
  { name: "db", port: 5_432 },
];

let file: string;
beforeEach(async () => {
  file = join(await mkdtemp(join(tmpdir(), "coral-managed-golden-")), "services.json");
});
afterEach(() => rm(join(file, ".."), { recursive: true, force: true }));

const open = () => ManagedServiceRegistry.open({ file, owner: undefined, wallMs: () => Date.UTC(2026, 0, 1), log: silentLogger });

describe("the file of connected services", () => {
  it("is written byte for byte", async () => {
    await (await open()).connect(specs);
    expect(await readFile(file, "utf8")).toBe(golden);
  });

  it("is read back", async () => {
    await writeFile(file, golden);
    const services = await open();
    expect(services.problem).toBeUndefined();
    expect(services.list()).toEqual(specs.map((spec) => ({ ...spec, connectedAt: "2026-01-01T00:00:00.000Z" })));
  });
});
