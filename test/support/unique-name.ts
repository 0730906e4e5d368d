import { randomInt } from "node:crypto";

/**
 * A service name that no other program on this machine has. Letters only, without a separator: discovery strips suffixes that look like ids.
 * @example uniqueName("shop") // "shopqzkvtm"
 */
export function uniqueName(base: string): string {
  const letters = "ghjkmnpqrstvwxyz";
  return base + Array.from({ length: 6 }, () => letters[randomInt(letters.length)]).join("");
}
