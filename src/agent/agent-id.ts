import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { CoralError } from "../base/errors.ts";
import { writePrivateFile } from "../config/index.ts";

/** Must be a valid SPIFFE path segment, because the id becomes part of the certificate. */
const pattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** The agent's id: created once from the host's name and a random part, then stable across restarts and host renames. */
export async function loadAgentId(file: string, hostname: string): Promise<string> {
  let text: string;
  try {
    text = (await readFile(file, "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") {
      throw new CoralError({
        code: "unavailable",
        message: `Cannot read the agent's id from "${file}": ${CoralError.from(error).message}`,
        cause: error,
      });
    }
    const readable =
      hostname
        .toLowerCase()
        .replaceAll(/[^a-z0-9-]+/g, "-")
        .replaceAll(/^-+|-+$/g, "")
        .slice(0, 40) || "host";
    text = `${readable}-${randomBytes(4).toString("hex")}`;
    await writePrivateFile(file, `${text}\n`);
  }
  if (!pattern.test(text)) {
    throw new CoralError({
      code: "corrupt",
      message: `Cannot use the agent's id in "${file}": it is not a valid id; remove the file to get a new one`,
    });
  }
  return text;
}
