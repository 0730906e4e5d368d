/** Golden keys of connections and edges. Stored totals are joined by them, so a changed key would split an edge in two. */

import { expect, it } from "vitest";
import { temporaryFolder, testEngine } from "../store.fixture.ts";
import { keyOf } from "./sql-parts.ts";

it("computes the golden key from texts, numbers and nulls", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("colony", folder.file("c.duckdb"), []);
  const key = keyOf(["agent", "port", "address", "service"]);
  const rows = await database.query(
    `SELECT ${key}::VARCHAR AS key FROM (VALUES ('web-1', 8080, '10.0.0.7', 'größe'), ('web-1', 8080, NULL, ''), ('', 0, '', '')) t(agent, port, address, service)`,
  );
  expect(rows.map(({ key: found }) => found)).toEqual(["13113454665590793984", "16959635240147188883", "2548222011425858427"]);
});
