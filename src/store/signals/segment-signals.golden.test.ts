/** Golden columns of the segment files of spans and logs. */

import { existsSync, writeFileSync } from "node:fs";
import { expect, it } from "vitest";
import { encodeParquet } from "../segments/parquet/encode-parquet.ts";
import { temporaryFolder, testEngine } from "../store.fixture.ts";
import { segmentSignals } from "./index.ts";

const header = `# Columns of segment files by signal: Parquet type and logical type as DuckDB reads them; "OPTIONAL" may be null.
# A signal may gain optional columns: raise its version. Columns are never renamed, retyped or removed.
# Then update this file: npx vitest run --project=unit segment-signals.golden -u
`;
const goldenFile = new URL("./segment-signals.golden.txt", import.meta.url);

it("writes segment files with the golden columns", async () => {
  expect(existsSync(goldenFile)).toBe(true);
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("schemas", folder.file("s.duckdb"), []);
  const lines: string[] = [];
  for (const signal of segmentSignals) {
    const file = folder.file(`${signal.name}.parquet`);
    writeFileSync(file, Buffer.concat(encodeParquet(signal, { rows: 0, columns: {} }).parts));
    const facts = await database.query(`SELECT decode(key) AS key, decode(value) AS value FROM parquet_kv_metadata('${file}')`);
    const columns = await database.query(
      `SELECT s.name, s.repetition_type, s.type, d.column_type FROM parquet_schema('${file}') s
       JOIN (DESCRIBE SELECT * FROM read_parquet('${file}')) d ON d.column_name = s.name ORDER BY s.column_id`,
    );
    lines.push("", `${signal.name} lookup=${signal.lookup ?? ""}`);
    lines.push(...facts.map(({ key, value }) => `  # ${String(key)} = ${String(value)}`));
    lines.push(
      ...columns.map((row) => `  ${["name", "repetition_type", "type", "column_type"].map((name) => String(row[name])).join(" ")}`),
    );
  }
  await expect(`${header}${lines.join("\n")}\n`).toMatchFileSnapshot(goldenFile.pathname);
});
