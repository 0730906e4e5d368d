import { CoralError } from "../../base/errors.ts";
import type { Database } from "./database.ts";

/** Numbered from 1, forward only. Released migrations are never edited. */
export interface Migration {
  version: number;
  /** Statements separated by semicolons; unqualified names mean schema `main` of the file. */
  sql: string;
}

/** Migrates a file, one transaction per migration. Returns its previous version, 0 for an empty file. Fails for a file written by a newer build. */
export async function migrate(database: Database, migrations: readonly Migration[]): Promise<number> {
  const known = migrations.at(-1)?.version ?? 0;
  const stored = await database.write(async (transaction) => {
    await transaction.run("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL, applied_at TIMESTAMP NOT NULL)");
    const [row] = await transaction.query("SELECT coalesce(max(version), 0) AS version FROM schema_version");
    return Number(row?.["version"]);
  });
  if (stored > known) {
    throw new CoralError({
      code: "unsupported",
      message: `Cannot open store "${database.file}": its schema is version ${stored} and this build knows ${known}; install a newer coral, or move the file away`,
      details: { stored, known },
    });
  }
  for (const { version, sql } of migrations.filter((migration) => migration.version > stored)) {
    await database.write(async (transaction) => {
      await transaction.run(sql);
      await transaction.run("INSERT INTO schema_version VALUES (?, make_timestamp(?))", [version, Date.now() * 1_000]);
    });
  }
  return stored;
}
