import { readFile } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";
import { writePrivateFile } from "../../config/index.ts";

/**
 * Agents whose certificates are refused, one id a line, in a file beside the authority's key: a store that was damaged and began anew must
 * not let them in again.
 */
export class Revocations {
  readonly #file: string;
  readonly #agentIds: Set<string>;

  private constructor(file: string, agentIds: Set<string>) {
    this.#file = file;
    this.#agentIds = agentIds;
  }

  static async open(file: string): Promise<Revocations> {
    try {
      const lines = (await readFile(file, "utf8")).split("\n");
      return new Revocations(file, new Set(lines.map((line) => line.trim()).filter((line) => line !== "")));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return new Revocations(file, new Set());
      throw new CoralError({
        code: "unavailable",
        message: `Cannot read the revoked agents in "${file}": ${CoralError.from(error).message}`,
        cause: error,
      });
    }
  }

  has(agentId: string): boolean {
    return this.#agentIds.has(agentId);
  }

  /** Resolves when it is durable. */
  async add(agentId: string): Promise<void> {
    if (this.#agentIds.has(agentId)) return;
    this.#agentIds.add(agentId);
    await writePrivateFile(this.#file, `${[...this.#agentIds].join("\n")}\n`);
  }
}
