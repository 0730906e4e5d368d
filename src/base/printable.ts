/** Control and format characters (the marks that reverse text among them), line and paragraph separators, lone surrogates. */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** A name that came from outside, safe to store and to print: no control characters, at most `maxLength` UTF-16 units. */
export function printable(text: string, maxLength: number): string {
  const clean = text.slice(0, maxLength * 4).replace(unprintable, "");
  // The cut may leave half of a surrogate pair behind.
  return clean.length <= maxLength ? clean : clean.slice(0, maxLength).replace(unprintable, "");
}
