import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { renderDocuments } from "./documents.ts";

it.each(Object.entries(renderDocuments()))("%s is what the code says; run `npm run docs`", (path, text) => {
  expect(readFileSync(new URL(`../../${path}`, import.meta.url), "utf8")).toBe(text);
});
