/** What kind of key it is, without the ids in it: `session:5f2c…` → `session:{id}`. Keys are data of users; patterns are not. */

import { redactShapes } from "../../redact/index.ts";

const maxLength = 80;
/** A word that a programmer wrote: letters, dashes and dots, not too long. */
const word = /^[A-Za-z][A-Za-z_.-]{0,31}$/;

export function keyPattern(key: string): string {
  const parts = key.slice(0, 512).split(/([:/|#{}])/);
  const pattern = parts.map((part, index) => (index % 2 === 1 || part === "" || word.test(part) ? part : "{id}")).join("");
  return redactShapes(pattern).slice(0, maxLength);
}
