/** Decides by its look and by the segment before it whether a segment of a URL path, or the value of a parameter, may be a secret. */

import { countApiWords, pathWords } from "./api-words.ts";

/** A segment after one of these is personal unless it is a plain word; also as part of a word: `verify-email`, `resetPassword`. */
const secretWord =
  /^(?:token|tokens|reset|invite|invitation|invites|verify|verification|confirm|confirmation|activate|activation|magic|unsubscribe|password|passwords|secret|secrets|key|keys|apikeys?|session|sessions|webhook|webhooks|hook|hooks|share|shares|otp|code|signature|callback|unlock|unseal|decrypt|recover|recovery|mnemonic|phrase|seed)$/i;
const secretLetter = /^[sd]$/i;
/** What follows one of these is the secret or the person itself, unless it is a word of APIs: `password/reset`. */
const strictParent = /^(?:pass(?:word|wd|phrase|code|key)?s?|pwd|pw|pin|pins|otp|ssn|sin|cvv|iban|e-?mails?|phones?|msisdn)$/i;

/** Whether the segment of a URL path after this one may be a secret. */
function isBeforeSecret(parent: string): boolean {
  return secretLetter.test(parent) || parent.split(/[-_.]|(?<=[a-z])(?=[A-Z])/).some((word) => secretWord.test(word));
}

/** Words that a passphrase has at least: five words of a list of 7,776 have 64 bits, and four are in use. */
const minPhraseWords = 4;
/** A run of letters that is too long for a word. */
const minRunLength = 25;

/**
 * Four or more words, most of which are not words of APIs: `correct-horse-battery-staple`. Titles look the same. They are values as well, so they
 * make no good names either.
 */
export function looksLikePhrase(text: string): boolean {
  if (text.length < 12 || text.length > 256) return false;
  if (/^(?:[a-z]+|[A-Z]+)$/.test(text)) return text.length >= minRunLength;
  const words = pathWords(text);
  const letters = words.filter((word) => /^\p{L}{2,}$/u.test(word));
  if (letters.length < minPhraseWords || words.length - letters.length > 2) return false;
  const known = countApiWords(letters);
  // Names of functions are often made of words of one trade: only those without any word of APIs are taken for a phrase.
  return /[-_.~+ :!]/.test(text) ? known * 2 < letters.length : known === 0;
}

/** Whether a decoded segment may be a secret. `parent`: the decoded segment before it. */
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
