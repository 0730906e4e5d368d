import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { version } from "./version.ts";

it("version is the one of package.json", () => {
  const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };
  expect(version).toBe(manifest.version);
});
