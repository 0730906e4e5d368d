import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { renderDocuments } from "./documents.ts";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

it.each(Object.entries(renderDocuments(read)))("%s matches the code; run `npm run docs`", (path, text) => {
  expect(read(path)).toBe(text);
});

it("rejects a document without the markers of its generated part", () => {
  expect(() => renderDocuments(() => "# Requests\n")).toThrow("the document has no <!-- protocols: … -->");
});
