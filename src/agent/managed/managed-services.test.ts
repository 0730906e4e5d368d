import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { ManagedServiceBook } from "./managed-services.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "coral-managed-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const open = (wallMs = () => Date.UTC(2026, 0, 1)): Promise<ManagedServiceBook> =>
  ManagedServiceBook.open({ file: join(directory, "services.json"), owner: undefined, wallMs, log: silentLogger });

describe("ManagedServiceBook", () => {
  it("keeps services over a restart, in a private file", async () => {
    const book = await open();
    expect(book.list()).toEqual([]);
    const outcomes = await book.connect([
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

  it("takes a service again: unchanged, or with its new check, and keeps when it was first connected", async () => {
    await (await open()).connect([{ name: "api", port: 8080 }]);
    const book = await open(() => Date.UTC(2027, 0, 1));
    expect(await book.connect([{ name: "api", port: 8080 }])).toMatchObject([{ kind: "unchanged" }]);
    expect(await book.connect([{ name: "api", port: 8080, health: "/h" }])).toMatchObject([
      { kind: "updated", service: { health: "/h", connectedAt: "2026-01-01T00:00:00.000Z" } },
    ]);
  });

  it("gives one port to one name, and changes nothing when one of several cannot be taken", async () => {
    const book = await open();
    await book.connect([{ name: "api", port: 8080 }]);
    await expect(
      book.connect([
        { name: "db", port: 5432 },
        { name: "web", port: 8080 },
      ]),
    ).rejects.toMatchObject({
      code: "already-exists",
      message: 'Cannot connect service "web": port 8080 is connected as "api"; first run "coral disconnect api"',
    });
    expect(book.list().map((service) => service.name)).toEqual(["api"]);
    expect((await open()).list()).toHaveLength(1);
  });

  it("disconnects every port of a name, and says which names there are when it is unknown", async () => {
    const book = await open();
    await book.connect([
      { name: "api", port: 8080 },
      { name: "api", port: 9090 },
      { name: "db", port: 5432 },
    ]);
    expect((await book.disconnect("api")).map((service) => service.port)).toEqual([8080, 9090]);
    await expect(book.disconnect("api")).rejects.toMatchObject({
      code: "not-found",
      message: 'Cannot disconnect service "api": it is not connected here; connected are db',
    });
    expect((await open()).list().map((service) => service.name)).toEqual(["db"]);
  });

  it("makes changes at the same time one after the other", async () => {
    const book = await open();
    const ports = Array.from({ length: 30 }, (_, index) => 1_000 + index);
    await Promise.all(ports.map((port) => book.connect([{ name: `s${port}`, port }])));
    await Promise.all(ports.slice(0, 10).map((port) => book.disconnect(`s${port}`)));
    expect((await open()).list().map((service) => service.port)).toEqual(ports.slice(10));
    expect(await readdir(directory)).toEqual(["services.json"]);
  });

  it("goes on after a change that could not be written", async () => {
    const book = await open();
    await rm(directory, { recursive: true });
    await writeFile(directory, "a file in the way");
    await expect(book.connect([{ name: "api", port: 1 }])).rejects.toMatchObject({ code: "unavailable" });
    expect(book.list()).toEqual([]);
    await rm(directory);
    await book.connect([{ name: "api", port: 1 }]);
    expect((await open()).list()).toHaveLength(1);
  });

  it("refuses more than it can look after", async () => {
    const book = await open();
    const many = Array.from({ length: 1_001 }, (_, index) => ({ name: "a", port: 1 + index }));
    await expect(book.connect(many)).rejects.toMatchObject({ code: "exhausted" });
    await book.connect(many.slice(1));
    await expect(book.connect([{ name: "b", port: 60_000 }])).rejects.toMatchObject({ code: "exhausted" });
  });

  it.each([
    ["half a file", '{"version":1,"services":[{"name"'],
    ["another version", '{"version":2,"services":[]}'],
    ["no list", '{"version":1}'],
    ["not an object", "null"],
    ["a hostile name", '{"version":1,"services":[{"name":"\\u001b[2J","port":80}]}'],
    ["nothing in the list", '{"version":1,"services":[null]}'],
  ])("moves %s aside and starts anew", async (_what, text) => {
    await writeFile(join(directory, "services.json"), text);
    const book = await open();
    expect(book.list()).toEqual([]);
    expect(book.problem).toContain("the damaged file is kept at");
    const kept = (await readdir(directory)).find((name) => name.startsWith("services.json.damaged-"));
    expect(await readFile(join(directory, kept ?? ""), "utf8")).toBe(text);
    await book.connect([{ name: "api", port: 80 }]);
    expect((await open()).problem).toBeUndefined();
  });
});
