/** A segment after one of these is personal unless it is a plain word; also as part of a word: `verify-email`, `resetPassword`. */
const secretWord =
  /^(?:token|tokens|reset|invite|invitation|invites|verify|verification|confirm|confirmation|activate|activation|magic|unsubscribe|password|passwords|secret|secrets|key|keys|apikeys?|session|sessions|webhook|webhooks|hook|hooks|share|shares|otp|code|signature|callback)$/i;
const secretLetter = /^[sd]$/i;

/** Whether the segment of a URL path after this one may be a secret. */
export function isBeforeSecret(parent: string): boolean {
  return secretLetter.test(parent) || parent.split(/[-_.]|(?<=[a-z])(?=[A-Z])/).some((word) => secretWord.test(word));
}
