import { open } from "node:fs/promises";
import { CoralError } from "../../../base/errors.ts";
import { type GivenCredentials, parseCredentials } from "../../../config/index.ts";

/** Reads credentials from a file of mode 0600. Errors never contain its text. */
export async function readCredentialsFile(path: string): Promise<GivenCredentials> {
  const fail = (why: string): CoralError => new CoralError({ code: "usage", message: `cannot use the credentials file "${path}": ${why}` });
  const file = await open(path, "r").catch((error: NodeJS.ErrnoException) => {
    throw fail(error.code === "ENOENT" ? "it does not exist" : `it cannot be read (${error.code ?? "unknown error"})`);
  });
  try {
    const { mode, uid } = await file.stat().then((stat) => (stat.isFile() ? stat : Promise.reject(fail("it is not a regular file"))));
    if ((mode & 0o077) !== 0)
      throw fail(`other users may read it (mode ${(mode & 0o777).toString(8).padStart(4, "0")}); run chmod 600 ${path}`);
    const own = process.geteuid?.() ?? uid;
    if (own !== 0 && uid !== own) throw fail("it belongs to another user");
    return parseCredentials(await file.readFile("utf8"));
  } finally {
    await file.close();
  }
}
