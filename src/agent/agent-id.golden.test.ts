/** Golden one-line files of an agent: its id, and the endpoint at which it last reached its colony. */

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadAgentId } from "./agent-id.ts";
import { openEndpointFile } from "./link/colony-link.ts";

let file: string;
beforeEach(async () => {
  file = join(await mkdtemp(join(tmpdir(), "coral-agent-golden-")), "value");
});
afterEach(() => rm(join(file, ".."), { recursive: true, force: true }));

describe("the file of the agent's id", () => {
  it("is written as one line: host name and eight hexadecimal digits", async () => {
    const id = await loadAgentId(file, "Web_1.example");
    expect(id).toMatch(/^web-1-example-[0-9a-f]{8}$/);
    expect(await readFile(file, "utf8")).toBe(`${id}\n`);
  });

  it("is read back, whatever the host is called now", async () => {
    await writeFile(file, "web-1-example-0badcafe\n");
    expect(await loadAgentId(file, "renamed")).toBe("web-1-example-0badcafe");
  });
});

describe("the file of the colony's endpoint", () => {
  it("is written as one line", async () => {
    await openEndpointFile(file).write("colony.example:9443");
    expect(await readFile(file, "utf8")).toBe("colony.example:9443\n");
  });

  it("is read back", async () => {
    await writeFile(file, "colony.example:9443\n");
    expect(await openEndpointFile(file).read()).toBe("colony.example:9443");
  });
});
