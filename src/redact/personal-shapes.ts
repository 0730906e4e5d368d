/** Masks personal data by shape: e-mail addresses, social security numbers, bank accounts, phone numbers. Also when percent-encoded. */

import { mask } from "./mask.ts";

/** `@`, literal, percent-encoded any number of times, as a JSON escape, or as an XML entity. */
const at = String.raw`(?:@|%(?:25)*40|\\?\\u0040|&(?:amp;)?(?:#0*64|#x0*40|commat);)`;
const dot = String.raw`(?:\.|%(?:25)*2[eE])`;
const emails = new RegExp(
  String.raw`[\p{L}\p{N}_+](?:[\p{L}\p{N}.!#$'*+^_~-]|%(?:25)*2[bBdDeE]){0,63}${at}[\p{L}\p{N}-]{1,63}(?:${dot}[\p{L}\p{N}-]{1,63}){1,8}`,
  "gu",
);

/** `078-05-1120`, with any single separator. Areas 000 and 666 were never assigned. */
const socialNumbers = new RegExp(
  String.raw`(?<![\d.])(?!000|666)\d{3}(-|[ ._+/\u2010-\u2013]|%(?:25)*2[0dDeE])(?!00)\d{2}\1(?!0000)\d{4}(?![\d])`,
  "g",
);

/** IBAN: country, two check digits, 11 to 30 letters and digits, contiguous or in groups of four. */
const accounts = /(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,4})?(?![A-Za-z0-9])/g;

/** `+49 30 1234567`, in queries `+49+30+1234567`: only with a country prefix; otherwise any number would match. */
const phones = /(?<![\w+])\+[1-9]\d{0,2}[ .()/+-]{0,2}\d(?:[ .()/+-]{0,2}\d){6,11}(?!\d)/g;

/** Prefilter: most texts match nothing and return at once. */
const worthALook = /@|%(?:25)*40|u0040|&[#c]|&amp;|\d{2}.{1,9}\d{4}|[A-Z]{2}\d{2}|\+[1-9]/;

/** ISO 7064, modulo 97: letters count from 10. */
function isAccount(text: string): boolean {
  const plain = text.replace(/[ -]/g, "");
  if (plain.length < 15 || plain.length > 34) return false;
  let rest = 0;
  for (const character of plain.slice(4) + plain.slice(0, 4)) {
    const value = Number.parseInt(character, 36);
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
  }
  return rest === 1;
}

export function redactPersonal(text: string): string {
  if (!worthALook.test(text)) return text;
  return text
    .replace(emails, mask)
    .replace(socialNumbers, mask)
    .replace(accounts, (found) => (isAccount(found) ? mask : found))
    .replace(phones, mask);
}
