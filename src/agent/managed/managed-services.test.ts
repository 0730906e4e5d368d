import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { ManagedServiceRegistry } from "./managed-services.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "coral-managed-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const open = (wallMs = () => Date.UTC(2026, 0, 1)): Promise<ManagedServiceRegistry> =>
  ManagedServiceRegistry.open({ file: join(directory, "services.json"), owner: undefined, wallMs, log: silentLogger });

describe("ManagedServiceRegistry", () => {
  it("keeps services across restarts, in a private file", async () => {
    const registry = await open();
    expect(registry.list()).toEqual([]);
    const outcomes = await registry.connect([
      { name: "api", port: 8080, health: "/health", type: "http" },
      { name: "db", port: 5432 },
    ]);
    expect(outcomes.map((outcome) => outcome.kind)).toEqual(["added", "added"]);
    const again = await open(() => 0);
    expect(again.list()).toEqual([
      { name: "api", port: 8080, health: "/health", type: "http", connectedAt: "2026-01-01T00:00:00.000Z" },
      { name: "db", port: 5432, connectedAt: "2026-01-01T00:00:00.000Z" },
    ]);
    expect(again.byPort(5432)?.name).toBe("db");
    expect((await stat(join(directory, "services.json"))).mode & 0o777).toBe(0o600);
  });

  it("accepts a service again, unchanged or with a new check, and keeps its first connection time", async () => {
    await (await open()).connect([{ name: "api", port: 8080 }]);
    const registry = await open(() => Date.UTC(2027, 0, 1));
    expect(await registry.connect([{ name: "api", port: 8080 }])).toMatchObject([{ kind: "unchanged" }]);
    expect(await registry.connect([{ name: "api", port: 8080, health: "/h" }])).toMatchObject([
      { kind: "updated", service: { health: "/h", connectedAt: "2026-01-01T00:00:00.000Z" } },
    ]);
  });

  it("allows one name per port, and changes nothing when one of several is refused", async () => {
    const registry = await open();
    await registry.connect([{ name: "api", port: 8080 }]);
    await expect(
      registry.connect([
        { name: "db", port: 5432 },
        { name: "web", port: 8080 },
      ]),
    ).rejects.toMatchObject({
      code: "already-exists",
      message: 'Cannot connect service "web": port 8080 is connected as "api"; first run "coral disconnect api"',
    });
    expect(registry.list().map((service) => service.name)).toEqual(["api"]);
    expect((await open()).list()).toHaveLength(1);
  });

  it("disconnects every port of a name, and lists the known names when it is unknown", async () => {
    const registry = await open();
    await registry.connect([
      { name: "api", port: 8080 },
      { name: "api", port: 9090 },
      { name: "db", port: 5432 },
    ]);
    expect((await registry.disconnect("api")).map((service) => service.port)).toEqual([8080, 9090]);
    await expect(registry.disconnect("api")).rejects.toMatchObject({
      code: "not-found",
      message: 'Cannot disconnect service "api": it is not connected here; connected services: db',
    });
    expect((await open()).list().map((service) => service.name)).toEqual(["db"]);
  });

  it("serialises concurrent changes", async () => {
    const registry = await open();
    const ports = Array.from({ length: 30 }, (_, index) => 1_000 + index);
    await Promise.all(ports.map((port) => registry.connect([{ name: `s${port}`, port }])));
    await Promise.all(ports.slice(0, 10).map((port) => registry.disconnect(`s${port}`)));
    expect((await open()).list().map((service) => service.port)).toEqual(ports.slice(10));
    expect(await readdir(directory)).toEqual(["services.json"]);
  });

  it("accepts changes after one that could not be written", async () => {
    const registry = await open();
    await rm(directory, { recursive: true });
    await writeFile(directory, "a file in the way");
    await expect(registry.connect([{ name: "api", port: 1 }])).rejects.toMatchObject({ code: "unavailable" });
    expect(registry.list()).toEqual([]);
    await rm(directory);
    await registry.connect([{ name: "api", port: 1 }]);
    expect((await open()).list()).toHaveLength(1);
  });

  it("refuses more services than the limit", async () => {
    const registry = await open();
    const many = Array.from({ length: 1_001 }, (_, index) => ({ name: "a", port: 1 + index }));
    await expect(registry.connect(many)).rejects.toMatchObject({ code: "exhausted" });
    await registry.connect(many.slice(1));
    await expect(registry.connect([{ name: "b", port: 60_000 }])).rejects.toMatchObject({ code: "exhausted" });
  });

  it.each([
    ["half a file", '{"version":1,"services":[{"name"'],
    ["another version", '{"version":2,"services":[]}'],
    ["no list", '{"version":1}'],
    ["not an object", "null"],
    ["a hostile name", '{"version":1,"services":[{"name":"\\u001b[2J","port":80}]}'],
    ["nothing in the list", '{"version":1,"services":[null]}'],
  ])("moves a damaged file aside (%s) and starts empty", async (_what, text) => {
    await writeFile(join(directory, "services.json"), text);
    const registry = await open();
    expect(registry.list()).toEqual([]);
    expect(registry.problem).toContain("the damaged file is kept at");
    const kept = (await readdir(directory)).find((name) => name.startsWith("services.json.damaged-"));
    expect(await readFile(join(directory, kept ?? ""), "utf8")).toBe(text);
    await registry.connect([{ name: "api", port: 80 }]);
    expect((await open()).problem).toBeUndefined();
  });
});
