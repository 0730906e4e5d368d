/** Golden names, columns and types of the published views: users' queries, dashboards and prompts depend on them. */

import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { openColonyStore } from "../colony/colony-store.ts";
import { derivedSignals, segmentSignals, signals } from "../signals/index.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";

const header = `# The published SQL views with their columns and types.
# Views and columns may be added. Renaming, retyping or removing one breaks people's SQL: publish the new one beside the old one.
# Then update this file: npx vitest run --project=unit published-views.golden -u
`;
const goldenFile = new URL("./published-views.golden.txt", import.meta.url);

it("publishes the golden views", async () => {
  expect(existsSync(goldenFile)).toBe(true);
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  await using store = await openColonyStore(engine, {
    file: folder.file("colony.duckdb"),
    signals: [...signals, ...derivedSignals],
    segments: { signals: segmentSignals, directory: folder.path, maxBytes: 1024 ** 3 },
    maxBytes: 1024 ** 3,
    clock: new TestClock(),
    log: silentLogger,
  });
  const lines: string[] = [];
  for (const { name } of store.publishedViews().toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const columns = await store.query(`DESCRIBE SELECT * FROM ${name}`);
    lines.push("", name, ...columns.map((column) => `  ${String(column["column_name"])} ${String(column["column_type"])}`));
  }
  await expect(`${header}${lines.join("\n")}\n`).toMatchFileSnapshot(goldenFile.pathname);
});
