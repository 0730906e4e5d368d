import { readFile } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";
import { writePrivateFile } from "../../config/index.ts";

/**
 * Agents whose certificates are refused. A file next to the authority's key, one id per line: when a damaged store is recreated, revoked agents must
 * stay out.
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

  /** Resolves when the revocation is durable. */
  async add(agentId: string): Promise<void> {
    if (this.#agentIds.has(agentId)) return;
    this.#agentIds.add(agentId);
    await writePrivateFile(this.#file, `${[...this.#agentIds].join("\n")}\n`);
  }
}
