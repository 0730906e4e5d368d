/** Parses database credentials as a person writes them in a file. Errors name lines, and never quote their text. */

import { CoralError } from "../../base/errors.ts";
import { type DatabaseCredentials, type DatabaseEngine, databaseEngines } from "../../model/database-facts.ts";

type Field = "user" | "password" | "database" | "socket";

const fieldNames: Readonly<Record<string, Field>> = {
  user: "user",
  username: "user",
  password: "password",
  pass: "password",
  pwd: "password",
  database: "database",
  dbname: "database",
  db: "database",
  socket: "socket",
};
const maxFileLength = 16_384;
const maxValueLength = 1_024;
const forms =
  "write user, password and database as name: value or NAME=value on a line each, or one line of host:port:database:user:password";

/** Parsed credentials; the engine follows from the service. */
export type GivenCredentials = Omit<DatabaseCredentials, "engine">;

/** Accepts `user: coral`, `PGUSER=coral`, `export MYSQL_PASSWORD="…"`, or a line of `.pgpass`. Throws `usage`. */
export function parseCredentials(text: string): GivenCredentials {
  if (text.length > maxFileLength) throw problem("the file is too long");
  const lines = text.split(/\r?\n/).map((line, index) => ({ line: line.trim(), number: index + 1 }));
  const filled = lines.filter(({ line }) => line !== "" && !line.startsWith("#") && line !== "---");
  const [first] = filled;
  if (!first) throw problem("the file is empty");
  const passLine = filled.length === 1 ? passFields(first.line) : undefined;
  const found = passLine ?? Object.fromEntries(filled.map(({ line, number }) => fieldIn(line, number)));
  return { user: "", password: "", database: "", socket: "", ...found };
}

/** `*:5432:shop:coral:secret`; `\:` and `\\` are a colon and a backslash. */
function passFields(line: string): Partial<Record<Field, string>> | undefined {
  const parts = [...line.matchAll(/((?:\\.|[^:\\])*)(?::|$)/g)].map(([, part = ""]) => part.replaceAll(/\\(.)/g, "$1"));
  const [, port = "", database = "", user = "", password = ""] = parts;
  if (!/^(?:\d+|\*)$/.test(port) || line.split(":").length < 5) return undefined;
  return { user, password, ...(database === "*" ? {} : { database }) };
}

function fieldIn(line: string, number: number): [Field, string] {
  const match = /^(?:export\s+)?(?:(?:PG|POSTGRES|MYSQL|MARIADB|REDIS|DB)_?)?([A-Za-z]+)\s*(?:=|:)\s*(.*)$/.exec(line);
  const field = fieldNames[(match?.[1] ?? "").toLowerCase()];
  if (field === undefined) throw problem(`line ${number} is none of user, password, database, socket; ${forms}`);
  return [field, unquoted(match?.[2] ?? "")];
}

function unquoted(value: string): string {
  const quoted = /^(["'])([\s\S]*)\1$/.exec(value);
  if (!quoted) return value;
  const inner = quoted[2] ?? "";
  return quoted[1] === '"' ? inner.replaceAll(/\\(["\\])/g, "$1") : inner;
}

/** Validates an untrusted value. */
export function checkCredentials(value: unknown): DatabaseCredentials {
  const { engine, ...rest } = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const known = databaseEngines.find((one) => one === engine);
  if (known === undefined) throw problem(`the engine is none of ${databaseEngines.join(", ")}`);
  const text = (name: Field): string => {
    const given = rest[name] ?? "";
    if (typeof given !== "string" || given.length > maxValueLength || given.includes("\0"))
      throw problem(`${name} is not a text of up to ${maxValueLength} characters`);
    return given;
  };
  const credentials = { engine: known, user: text("user"), password: text("password"), database: text("database"), socket: text("socket") };
  if (credentials.socket !== "" && !credentials.socket.startsWith("/")) throw problem("socket is not an absolute path");
  if (known !== "redis" && credentials.user === "") throw problem(`it has no user; ${forms}`);
  return credentials;
}

const enginesByWord: readonly (readonly [RegExp, DatabaseEngine])[] = [
  [/postgres|pgsql|timescale/i, "postgres"],
  [/mysql|maria/i, "mysql"],
  [/redis|valkey/i, "redis"],
];
const enginesByPort: Readonly<Record<number, DatabaseEngine>> = { 5432: "postgres", 3306: "mysql", 6379: "redis" };

/** The engine by its type, name, discovered program, or usual port; undefined if none of them is conclusive. */
export function engineOf(words: readonly (string | null | undefined)[], port: number): DatabaseEngine | undefined {
  for (const word of words) {
    const found = enginesByWord.find(([pattern]) => pattern.test(word ?? ""));
    if (found) return found[1];
  }
  return enginesByPort[port];
}

function problem(why: string): CoralError {
  return new CoralError({ code: "usage", message: `cannot use the credentials: ${why}` });
}
