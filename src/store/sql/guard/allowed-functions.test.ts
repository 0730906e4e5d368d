import { describe, expect, it } from "vitest";
import { PublishedDatabase } from "../read-only-sql.fixture.ts";
import { allowedFunctions } from "./allowed-functions.ts";

describe("allowedFunctions", () => {
  it("contains only names of DuckDB functions", async () => {
    await using published = await PublishedDatabase.open();
    const rows = await published.database.query("SELECT DISTINCT lower(function_name) AS name FROM duckdb_functions()");
    const known = new Set(rows.map((row) => row["name"]));
    // Not in the catalog: created by the parser or the binder.
    for (const name of ["unnest", "nullif"]) known.add(name);
    expect([...allowedFunctions].filter((name) => !known.has(name))).toEqual([]);
  });
});
