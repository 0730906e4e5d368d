/** Decides whether a URL path segment or a parameter's value may be a secret, by its look and by the segment before it. */

import { countApiWords, pathWords } from "./api-words.ts";

/** A segment after one of these is a secret unless it is a plain word. Matches parts of words too: `verify-email`, `resetPassword`. */
const secretWord =
  /^(?:token|tokens|reset|invite|invitation|invites|verify|verification|confirm|confirmation|activate|activation|magic|unsubscribe|password|passwords|secret|secrets|key|keys|apikeys?|session|sessions|webhook|webhooks|hook|hooks|share|shares|otp|code|signature|callback|unlock|unseal|decrypt|recover|recovery|mnemonic|phrase|seed)$/i;
const secretLetter = /^[sd]$/i;
/** A segment after one of these is the secret or the person itself, unless it is an API word: `password/reset`. */
const strictParent = /^(?:pass(?:word|wd|phrase|code|key)?s?|pwd|pw|pin|pins|otp|ssn|sin|cvv|iban|e-?mails?|phones?|msisdn)$/i;

/** Whether the path segment after this one may be a secret. */
function isBeforeSecret(parent: string): boolean {
  return secretLetter.test(parent) || parent.split(/[-_.]|(?<=[a-z])(?=[A-Z])/).some((word) => secretWord.test(word));
}

/** Minimum words of a passphrase: five words from a list of 7,776 have 64 bits, and four are in use. */
const minPhraseWords = 4;
/** Letter runs of this length are too long for a word. */
const minRunLength = 25;

/**
 * Four or more words, most of which are not API words: `correct-horse-battery-staple`. Titles look the same; they are values too, so
 * masking them is fine.
 */
export function looksLikePhrase(text: string): boolean {
  if (text.length < 12 || text.length > 256) return false;
  if (/^(?:[a-z]+|[A-Z]+)$/.test(text)) return text.length >= minRunLength;
  const words = pathWords(text);
  const letters = words.filter((word) => /^\p{L}{2,}$/u.test(word));
  if (letters.length < minPhraseWords || words.length - letters.length > 2) return false;
  const known = countApiWords(letters);
  // Function names often consist of domain words: only those without any API word count as a phrase.
  return /[-_.~+ :!]/.test(text) ? known * 2 < letters.length : known === 0;
}

/** Whether a decoded segment may be a secret. `parent` is the decoded segment before it. */
export function isSecretSegment(parent: string, text: string): boolean {
  if (looksLikePhrase(text)) return true;
  if (text.startsWith("{")) return false;
  if (strictParent.test(parent)) {
    const words = pathWords(text);
    return countApiWords(words) < words.length;
  }
  if (!isBeforeSecret(parent)) return false;
  if (text.length >= 6 && (/\d/.test(text) || text.length >= 20 || /[a-z][A-Z]{2}/.test(text))) return true;
  const words = pathWords(text);
  return !secretLetter.test(parent) && words.length >= 3 && countApiWords(words) * 2 < words.length;
}
