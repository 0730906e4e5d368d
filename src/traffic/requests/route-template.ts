/**
 * Turns a request target into a route: segments that identify one thing become `{id}`, those that name a kind of thing stay. Query, fragment and
 * parameters are removed, so that user input stays out of names. An ambiguous segment is masked: a coarse route costs less than a leaked token.
 */

import { isSecretSegment, redactShapes } from "../../redact/index.ts";

export const idPlaceholder = "{id}";
/** The route of requests whose target could not be read. */
export const unknownRoute = "unknown";

/** Longest route in characters; a longer one ends in `/…`. */
export const maxRouteLength = 120;
/** Most segments of a route; a longer one ends in `/…`. */
export const maxRouteSegments = 12;
/** A longer segment is not a word. */
const maxWordLength = 48;
/** Characters of a target that are read. */
const maxTargetLength = 4096;

const uuid = /^\{?[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\}?$/i;
const versionWord = /^v\d{1,3}(?:\.\d{1,2})?(?:(?:alpha|beta|rc|p)\d{0,2}(?:p\d)?)?$/i;
/** Numbers with signs, dots, commas and colons: versions, addresses, coordinates, prices, clock times. */
const numeric = /^[+-]?\d[\d.,:+-]*$/;
const date = /^\d{4}-\d{2}(?:-\d{2})?(?:[T _]?[\d:.+Z-]*)$/i;
const ipv6 = /^\[?(?=.*:.*:)[0-9a-f:.]+(?:%25\w+)?\]?$/i;
/** Words that usually contain digits. */
const wordWithDigits =
  /^(?:sha\d{1,3}|md5|base\d{2}|utf\d{1,2}|x509|ipv[46]|oauth[12]?|http[123]|h26[45]|mp[34]|es\d{4}|s3|ec2|k8s|i18n|l10n|a11y|web3|log4j|rfc\d{4}|iso\d{4})$/i;
const staticFile =
  /^(.+?)((?:\.(?:min|map|d|test|module|umd|esm|cjs|bundle|chunk|gz|br))*\.(?:html?|xhtml|php|aspx?|jsp|cgi|json|xml|ya?ml|txt|csv|md|js|mjs|cjs|ts|css|map|wasm|png|jpe?g|gif|svg|webp|avif|ico|bmp|tiff?|woff2?|ttf|otf|eot|mp[34]|webm|ogg|wav|mov|avi|m3u8|mpd|pdf|docx?|xlsx?|pptx?|zip|gz|tgz|tar|br|bz2|xz|7z|jar|war|whl|deb|rpm|apk|exe|dmg|iso|bin|proto|sql|log|do|action|rss|atom))$/i;
/** Pages named after a status code. */
const statusPage = /^[1-5]\d\d$/;
/** Segments that precede a version number. */
const versionParent = /^(?:api|rest|version|ver|v)$/i;

interface Mix {
  digits: number;
  uppers: number;
  lowers: number;
  /** Changes between digits, upper and lower case; a capital at the start of a word does not count twice. */
  changes: number;
}

function mixOf(text: string): Mix {
  const mix: Mix = { digits: 0, uppers: 0, lowers: 0, changes: 0 };
  let last = "";
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    const kind = code >= 48 && code <= 57 ? "digit" : code >= 65 && code <= 90 ? "upper" : code >= 97 && code <= 122 ? "lower" : "other";
    if (kind === "digit") mix.digits++;
    else if (kind === "upper") mix.uppers++;
    else if (kind === "lower") mix.lowers++;
    if (last !== "" && kind !== last && !(last === "upper" && kind === "lower")) mix.changes++;
    last = kind;
  }
  return mix;
}

/** Hexadecimal: 8 or more characters with a digit, or too long for a word. */
function isHex(text: string): boolean {
  return /^(?:0x)?[0-9a-f]+$/i.test(text) && ((text.length >= 8 && /\d/.test(text) && !/^[a-z]+\d{1,2}$/i.test(text)) || text.length >= 16);
}

/** One run of letters and digits that is random or a counter. */
function isRandomRun(run: string): boolean {
  if (run.length < 5 || wordWithDigits.test(run) || versionWord.test(run)) return false;
  if (isHex(run)) return true;
  const { digits, uppers, lowers, changes } = mixOf(run);
  const rate = changes / run.length;
  // `u12345`, `INV00123`
  if (digits >= 4 && digits * 2 >= run.length) return true;
  if (uppers >= 2 && lowers >= 2) {
    if (digits >= 2 && (run.length >= 16 ? rate >= 0.2 : run.length >= 10 && rate >= 0.4)) return true;
    if (run.length >= 20) return run.length / run.split(/(?=[A-Z])/).length < 3.2 || digits >= 4;
    return false;
  }
  // One case with digits: base 32 and 36, hashes of deployments.
  if (digits >= 2 && uppers + lowers >= 2 && run.length >= 8 && rate >= 0.35) return true;
  if (digits >= 3 && run.length >= 16) return true;
  return run.length >= 25;
}

/** Several words joined by hyphens, underscores or dots: an id if one of them is an id. */
function hasIdPiece(text: string): boolean {
  const pieces = text.split(/[-_.~!]/);
  if (pieces.length === 1) return isRandomRun(text);
  return pieces.some((piece) => (/^\d+$/.test(piece) ? piece.length >= 4 : isRandomRun(piece)));
}

function isId(text: string): boolean {
  if (text.length > maxWordLength) return true;
  if (numeric.test(text) || date.test(text) || uuid.test(text) || ipv6.test(text)) return true;
  if (versionWord.test(text)) return false;
  // Email addresses; a leading @ is a scope or a handle.
  if (text.indexOf("@") > 0 || text.includes(",") || text.includes("|")) return true;
  // Blanks, quotes and control characters occur only in user input.
  if (/[^\p{L}\p{N}\p{M}\-._~!$&'()*+;=:@{}[\]<>^]/u.test(text)) return true;
  return hasIdPiece(text) || redactShapes(text) !== text;
}

function decodeSegment(segment: string): string | null {
  if (!segment.includes("%")) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    // Not UTF-8, or truncated within an escape: treat it as an id.
    return null;
  }
}

/** `app.3f2a9c1b.js` becomes `app.{id}.js`: each part of a file name is judged separately. */
function templateFile(stem: string, extension: string): string {
  if (statusPage.test(stem) && /^\.html?$/i.test(extension)) return stem + extension;
  if (stem.length > maxWordLength * 2 || numeric.test(stem) || uuid.test(stem) || date.test(stem)) return idPlaceholder + extension;
  // Versions are part of a file name, as in jquery-3.6.0.min.js.
  if (/^[a-z][a-z-]*-\d{1,2}(?:\.\d{1,2}){1,2}$/i.test(stem)) return stem + extension;
  const pieces = stem.split(/([-_.~])/);
  const made = pieces.map((piece) => (/^\d{4,}$/.test(piece) || isRandomRun(piece) ? idPlaceholder : piece)).join("");
  return (isId(made.replaceAll(idPlaceholder, "x")) ? idPlaceholder : made) + extension;
}

function templateSegment(raw: string, parent: string, isLast: boolean): string {
  const decoded = decodeSegment(raw);
  if (decoded === null) return idPlaceholder;
  const semicolon = decoded.indexOf(";");
  const text = semicolon === -1 ? decoded : decoded.slice(0, semicolon);
  if (text === "" || text === idPlaceholder) return text;
  // Most ids are numbers, and most paths have some.
  if (/^\d+$/.test(text)) return !isLast && text.length === 1 && versionParent.test(parent) ? text : idPlaceholder;
  const file = text.includes(".") ? staticFile.exec(text) : null;
  if (isSecretSegment(parent, file === null ? text : (file[1] ?? ""))) return idPlaceholder;
  if (file !== null && !numeric.test(text)) return templateFile(file[1] ?? "", file[2] ?? "");
  // Verbs of Google APIs: projects/12:cancel.
  const verb = text.includes(":") ? /^([^:]+):([a-z][A-Za-z]{2,30})$/.exec(text) : null;
  if (verb !== null) return `${isId(verb[1] ?? "") ? idPlaceholder : verb[1]}:${verb[2]}`;
  // OData: Users(12), Users('x').
  const keyed = text.endsWith(")") ? /^([A-Za-z]\w{0,40})\(.*\)$/.exec(text) : null;
  if (keyed !== null) return `${keyed[1]}(${text.endsWith("()") ? "" : idPlaceholder})`;
  const pair = text.includes("=") ? /^([A-Za-z][\w.-]{0,30})=[^=]/.exec(text) : null;
  if (pair !== null && !isId(pair[1] ?? "")) return `${pair[1]}=${idPlaceholder}`;
  return isId(text) ? idPlaceholder : text;
}

function pathOf(target: string): string {
  const end = target.search(/[?#]/);
  return end === -1 ? target : target.slice(0, end);
}

/** `host:443` of CONNECT; without userinfo, with addresses masked. */
function templateAuthority(target: string): string {
  const [, host = "", port = ""] = /^(?:[^@]*@)?(\[[^\]]*\]|[^:]*):(\d+)$/.exec(target) ?? [];
  return `${isId(host) ? idPlaceholder : host.toLowerCase().slice(0, 100)}:${port}`;
}

function templatePath(path: string, isCut: boolean): string {
  const segments = path.split("/").filter((segment) => segment !== "" && segment !== ".");
  // The last segment of a truncated target may be the first half of an id.
  if (isCut) segments.pop();
  let route = "";
  let parent = "";
  for (const [index, segment] of segments.entries()) {
    const made = templateSegment(segment, parent, index === segments.length - 1);
    if (made === "") continue;
    if (index >= maxRouteSegments || route.length + made.length + 1 > maxRouteLength - 2) return `${route}/…`;
    route += `/${made}`;
    parent = decodeSegment(segment) ?? segment;
  }
  if (isCut) return `${route}/…`;
  return route === "" ? "/" : route;
}

/**
 * Accepts every form of request target: `/path?query`, `http://host/path`, `host:443`, `*`. `isCut`: the target is truncated.
 * The result has at most `maxRouteLength` characters.
 */
export function templateRoute(target: string, isCut = false): string {
  if (target === "") return unknownRoute;
  if (target === "*") return "*";
  const hasTail = target.length > maxTargetLength;
  const seen = hasTail ? target.slice(0, maxTargetLength) : target;
  const absolute = /^[a-z][a-z0-9+.-]{0,20}:\/\/[^/?#]*/i.exec(seen);
  const rest = absolute === null ? seen : seen.slice(absolute[0].length);
  if (absolute === null && /^(?:[^@/?#]*@)?(?:\[[0-9a-f:.]+\]|[^:/?#@]+):\d{1,5}$/i.test(seen)) return templateAuthority(seen);
  const path = pathOf(rest);
  return templatePath(path, (isCut || hasTail) && path.length === rest.length);
}

/** Caches the routes of repeated targets. Holds at most `maxTargets`, and clears the cache when it is full. */
export function createRouteTemplater(maxTargets = 2048): (target: string, isCut?: boolean) => string {
  const known = new Map<string, string>();
  return (target, isCut = false) => {
    // Long targets seldom repeat, and would cost the most memory.
    if (isCut || target.length > 256) return templateRoute(target, isCut);
    const found = known.get(target);
    if (found !== undefined) return found;
    if (known.size >= maxTargets) known.clear();
    const route = templateRoute(target);
    known.set(target, route);
    return route;
  };
}
