const utf8 = new TextDecoder("utf-8", { fatal: true });
const notAscii = /[\u0080-\u00ff]/;

/**
 * A request target whose bytes were read as Latin-1. Many clients send UTF-8 without percent-encoding it; what is not valid UTF-8 stays Latin-1.
 * `isCut`: the target may end within a character, which is dropped then.
 */
export function targetText(latin1: string, isCut = false): string {
  if (!notAscii.test(latin1)) return latin1;
  const bytes = Buffer.from(latin1, "latin1");
  // A character has at most four bytes.
  for (let dropped = 0; dropped <= (isCut ? 3 : 0); dropped++) {
    try {
      return utf8.decode(bytes.subarray(0, bytes.length - dropped));
    } catch {
      // Not UTF-8, or cut in the middle of a character.
    }
  }
  return latin1;
}
