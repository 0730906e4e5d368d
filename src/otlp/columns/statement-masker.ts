/** Database statements without their values, by code: each statement is masked once per batch. */

import { sqlTemplate } from "../../redact/index.ts";
import type { ByteDictionary } from "./byte-dictionary.ts";

/** Prefix of a statement that is parsed. */
const maxLength = 1_024;

/** Replaces literals in SQL by placeholders. Codes are valid for one batch, so call `reset` with the dictionary. */
export class StatementMasker {
  readonly #masked = new Map<number, number>();

  /** Call with a new dictionary. */
  reset(): void {
    this.#masked.clear();
  }

  /** The code of the template of a statement, or 0 when its values cannot be identified. */
  mask(dictionary: ByteDictionary, statement: number, system: number): number {
    const known = this.#masked.get(statement);
    if (known !== undefined) return known;
    const isMysql = /^(?:mysql|mariadb)/i.test(dictionary.textOf(system));
    const text = dictionary.textOf(statement);
    const { verb, template } = sqlTemplate(text.slice(0, maxLength), {
      dialect: isMysql ? "mysql" : "postgres",
      isCut: text.length > maxLength,
      maxLength: 512,
    });
    const code = dictionary.codeOfText(verb === "" ? "" : template);
    this.#masked.set(statement, code);
    return code;
  }
}
