/**
 * Finds passwords by grammar: `user:password@host` in URLs, DSNs and remote paths, `user/password@host` of Oracle. All of them contain an
 * `@`, so most texts return at once.
 */

import { mask } from "./mask.ts";

const urlScheme = /\b[a-z][a-z0-9+.-]{1,20}:\/\//gi;
/** Schemes where a user alone is not a secret. Elsewhere it may be a token: `https://TOKEN@host`. */
const namesItsUser =
  /^(?:(?:git|svn|hg|bzr)\+ssh|ssh|sftp|scp|git|rsync|smb|cifs|ftps?|postgres(?:ql)?(?:\+\w+)?|cockroachdb|mysql(?:\+\w+)?|mariadb|mongodb(?:\+srv)?|ldaps?|amqps?|sip|imaps?|smtps?|pop3s?|oracle|sqlserver|mssql|clickhouse|akka(?:\.tcp)?):/i;
const plainUser = /^[A-Za-z_][\w.+-]{0,31}$/;
/** `host:8080` before a path, a query, or the next host. */
const hostAndPort = /^(?:\[[\da-f:.]+\]|[\w.-]+)?:\d{1,5}(?=$|[/?#,;&|)])/i;
const webScheme = /^(?:https?|wss?):/i;
const endOfUrl = /[\s"'<>`]/;

/** Index of the `@` that ends the user part of a URL; `rest` is the part after `://`. -1 if it has no user part. */
function endOfUser(rest: string, scheme: string): number {
  const first = rest.indexOf("@");
  if (first < 0) return -1;
  const authority = /^[^/?#]*/.exec(rest)?.[0] ?? "";
  const colon = authority.indexOf(":");
  // No password: a user alone, including `git@host:22`, or a path that contains an `@`.
  if (colon < 0 || (authority.includes("@") && colon > first && !authority.includes("@", colon)))
    return authority.includes("@") ? first : -1;
  if (!authority.includes("@")) {
    const port = hostAndPort.exec(rest);
    // `postgres://u:12/34@h` contains a password, `https://h:8443/@bob` a path.
    if (port && (webScheme.test(scheme) || /^[^:]*\.|^localhost|^\[/.test(port[0]) || !rest.slice(port[0].length).startsWith("/")))
      return -1;
  }
  // The query of a URL whose host was already found.
  const query = rest.slice(first).search(/\?[\w.-]+=/);
  return rest.lastIndexOf("@", query < 0 ? undefined : first + query);
}

/** Masks the user part of URLs if it contains a password or a token. */
export function redactUrls(text: string): string {
  if (!text.includes("@") || !text.includes("://")) return text;
  let result = "";
  let done = 0;
  urlScheme.lastIndex = 0;
  for (let match = urlScheme.exec(text); match !== null; match = urlScheme.exec(text)) {
    const start = match.index + match[0].length;
    const length = text.slice(start).search(endOfUrl);
    const rest = length < 0 ? text.slice(start) : text.slice(start, start + length);
    const end = endOfUser(rest, match[0]);
    if (end < 0) continue;
    const user = rest.slice(0, end);
    const isKept = user === "" || user === mask || (plainUser.test(user) && namesItsUser.test(match[0]));
    result += text.slice(done, start) + (isKept ? user : mask);
    done = start + end;
    urlScheme.lastIndex = done;
  }
  return result + text.slice(done);
}

/** Prefixes before a colon that are not a user: `mailto:bob@x`, `npm:tool@1.2`. */
const notUsers =
  /^(?:mailto|sips?|xmpp|acct|npm|jsr|jdbc|urn|tel|git|github|gitlab|bitbucket|file|pkg|node|data|workspace|patch|virtual|portal|link|image|docker-pullable|oci|docker)$/i;
/** `user:password@`, also `DOMAIN/user:` and `user@domain:`, up to the last `@` of a word. */
const login = /(?<![\w.@/\\%])([A-Za-z_][\w.+-]{0,63}(?:[/\\][\w.+$-]{1,63})?(@[\w.-]{1,63})?):((?!\/\/)[^\s"'`]*)@(?=[\w.[%(/*{$-])/g;

function maskLogin(found: string, user: string, domain: string | undefined, password: string, target: string): string {
  const [, scheme = user] = /([^@/\\]*)$/.exec(domain ?? user) ?? [];
  const isNetwork = /^(?:tcp|tcp6|udp|unix|cloudsql|mysql)?\(/.test(target);
  if (password === "" || password === mask || notUsers.test(scheme) || /^sha\d{3}:/.test(target)) return found;
  // A remote path, or a list of addresses such as `1@a:9093,2@b:9093`.
  if (!isNetwork && (password.startsWith("/") || (domain !== undefined && /^\d{1,5}(?:,|$)|\//.test(password)))) return found;
  return `${user}:${mask}@`;
}

/** `user/password@//host`, `user/password@host:1521`, `user/password@(DESCRIPTION=…)`. */
const oracle =
  /(?<![\w.@/\\%-])([A-Za-z][\w$#]{0,63})\/((?:"[^"]{1,128}"|[^\s"'/]{1,128}?)(?=@\/\/)|(?:"[^"]{1,128}"|[^\s"'@/]{1,128})(?=@(?:(?!sha\d{3}:)[\w.-]{1,128}:\d{1,5}(?![\w])|\()))/g;

/** Masks the passwords of logins. */
export function redactLogins(text: string): string {
  if (!text.includes("@")) return text;
  let result = redactUrls(text);
  if (result.includes("/")) result = result.replace(oracle, (_, user: string) => `${user}/${mask}`);
  if (!result.includes(":")) return result;
  return result.replace(login, (found: string, user: string, domain: string | undefined, password: string, offset: number) =>
    maskLogin(found, user, domain, password, result.slice(offset + found.length, offset + found.length + 16)),
  );
}
