/** Decides by the name of an option, setting or variable whether its value is a secret. */

/** A set of the words in a text. */
export function wordSet(words: string): ReadonlySet<string> {
  return new Set(words.split(/\s+/).filter(Boolean));
}

export interface SecretNameRules {
  /** Additional words that mark a name as secret: `passcode`. */
  names: readonly string[];
}

/** Secret anywhere in a name, as in `dbpassword` and `rootPasswd`. */
const secretParts =
  /passw(?:or)?d|passphrase|passcode|secret(?!ar)|credential|apikey|api[_.-]?key|accesskey|access[_.-]?key|private[_.-]?key|account[_.-]?key|shared[_.-]?key|signing[_.-]?key|encryption[_.-]?key|master[_.-]?key|authkey|auth[_.-]?token|accesstoken|refreshtoken|connection[_.-]?string|connstr|requirepass|masterauth|keytab[_.-]?data|webhook/i;
/** Secret as separate words. */
const secretWords = wordSet(`
  pass pwd pw passwd token tokens key keys auth authorization authentication bearer dsn cookie cookies creds cred jwt pat otp totp pin sas sig
  signature seed mnemonic license salt hmac psk authtoken apitoken passin passout passkey proxyauth basicauth userauth smtpauth
`);
/** `storepass`, `dbpass`, `rootpw`; not `bypass` and `compass`. */
const endsInPass = /(?<!^(?:by|com|encom|tres|sur|over|under|im))pass\d?$|^(?:root|user|owner|admin|db|bind|ks|smtp|mail|my)pw$/;
/** `passwordfile`, `tokenpath`. */
const endsInPlace = /(?:file|path|dir)$/;
/** Last words that make the value a description of the secret, not the secret: `token-ttl`, `key-file`, `auth-type`. */
const describingWords = wordSet(`
  file files filename path paths dir directory folder name names type types ttl length len size bits count max min limit enabled enable
  disabled disable timeout expiry expires expiration lifetime age interval method methods mode provider providers backend driver prefix suffix
  algorithm algorithms alg algo cipher version format policy issuer audience scope scopes column field index order by store manager server
  service host hostname port endpoint url uri domain realm plugin plugins module header handler required optional rotation rate budget space
  exchange generation map set group usage role roles location encoding separator delimiter schema pattern
`);
/** First words after which `key` and similar words are not secret: `primary-key`, `sort_key`, `public-key`. */
const harmlessBefore =
  wordSet(`primary foreign sort partition public pub hot group unique routing shard map row cache object max min num no skip
  disable without hide keep document config property idempotency dedup host`);

/** `dbPassword`, `DB_PASSWORD` and `db.password` have the same words. */
function wordsOf(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/([A-Z]+)([A-Z][a-z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== "");
}

export function isSecretName(name: string, rules: SecretNameRules = { names: [] }): boolean {
  if (name === "" || name.length > 128) return false;
  const words = wordsOf(name);
  if (rules.names.some((word) => name.toLowerCase().includes(word.toLowerCase()))) return true;
  const last = words.at(-1) ?? "";
  if (describingWords.has(last) || endsInPlace.test(last)) return false;
  if (secretParts.test(name)) return true;
  return words.some((word, index) => (secretWords.has(word) || endsInPass.test(word)) && !harmlessBefore.has(words[index - 1] ?? ""));
}

/** Switches without a value, whose next word is not a secret. */
export function isFlagOnly(name: string): boolean {
  const words = wordsOf(name);
  return (
    ["no", "skip", "disable", "enable", "allow", "without", "with", "require", "use"].includes(words[0] ?? "") &&
    words.length > 1 &&
    !/password/i.test(name)
  );
}

/** Names whose values look random but are not secret: container ids, commits, digests. */
export function isIdentifierName(name: string): boolean {
  const last = wordsOf(name).at(-1) ?? "";
  return (
    /^(?:id|ids|uid|uuid|digest|checksum|sha|sha1|sha256|commit|revision|rev|ref|hash|build|fingerprint|hostname|node|container|pod)$/.test(
      last,
    ) && !isSecretName(name)
  );
}

const filePath = /^(?:\.{0,2}\/|~\/|[A-Za-z]:\\)?(?:[\w.@+-]{1,64}\/)*[\w.@+:-]{1,80}$/;
const keyFile = /\.(?:pem|key|crt|cer|cert|pfx|p12|jks|keystore|truststore|pub|json|ya?ml|toml|ini|conf|cfg|env|txt|keytab|gpg|asc|sock)$/i;

/**
 * Values that are never secret, whatever their name: switches, small numbers, durations, empty values. For keys and tokens, but not for
 * passwords, also file paths.
 */
export function isHarmlessValue(name: string, value: string): boolean {
  if (
    value === "" ||
    value === "***" ||
    /^(?:true|false|yes|no|on|off|none|null|nil|auto|basic|disabled|enabled|required|optional|prompt|ask)$/i.test(value)
  )
    return true;
  // A placeholder, or one digit: `-pass 1` of an encoder.
  if (/^(?:\$\{?\w+\}?|\$\(.*\)|%\w+%|<[\w -]+>|\d)$/.test(value)) return !/pin|otp/i.test(name);
  if (/passw(?:or)?d|passphrase|passcode|pwd|requirepass|masterauth/i.test(name) || /(?:^|[^a-z])pass$/i.test(name)) return false;
  if (/^\d{1,6}(?:ms|s|m|h|d|k|mb|gb)?$/i.test(value)) return !/pin|otp/i.test(name);
  return value.length <= 256 && filePath.test(value) && (keyFile.test(value) || /^(?:\.{0,2}|~)\//.test(value));
}
