/** SQL expressions that discovery's statements share. Parameters are column names. */

/** Agents send untrusted texts: limits their length and removes control characters before they are stored as names. */
export const cleanText = (column: string, maxLength: number): string =>
  `left(regexp_replace(coalesce(${column}, ''), '[\\x00-\\x1f\\x7f]', '', 'g'), ${maxLength})`;

/** The current label of a service, for messages. Qualify the column: a bare name would refer to `net.services`. */
export const labelOf = (column: string): string =>
  `coalesce((SELECT any_value(l.label) FROM net.services l WHERE l.service = ${column}), ${column})`;

/** IPv4-mapped IPv6 (`::ffff:10.0.0.1`) as IPv4: the two ends of a connection may report it differently. */
export const plainAddress = (column: string): string =>
  `left(lower(CASE WHEN starts_with(lower(${column}), '::ffff:') AND contains(${column}, '.') THEN substr(${column}, 8) ELSE ${column} END), 64)`;

/** Loopback and link-local addresses are only unique within a network namespace. */
export const isLocalAddress = (column: string): string =>
  `(starts_with(${column}, '127.') OR starts_with(${column}, '169.254.') OR ${column} = '::1' OR left(${column}, 3) IN ('fe8', 'fe9', 'fea', 'feb'))`;

export const isWildcardAddress = (column: string): string => `(${column} IN ('', '0.0.0.0', '::', '*'))`;

/** Not routable on the internet. Same rule as `scope` in the tools. */
export const isPrivateAddress = (column: string): string =>
  `regexp_matches(${column}, CASE WHEN contains(${column}, ':') THEN '^(::1?$|f[cd]|fe[89ab]|ff)'
    ELSE '^((0|10|127|22[4-9]|2[3-5][0-9])[.]|169[.]254[.]|192[.]168[.]|172[.](1[6-9]|2[0-9]|3[01])[.]|100[.](6[4-9]|[7-9][0-9]|1[01][0-9]|12[0-7])[.])' END)`;

/** A counter sent by an agent, clamped so that no sum of counters can overflow. */
export const counter = (column: string): string => `least(greatest(${column}, 0), 1125899906842624)`;

/** A sum of counters as stored. */
export const sumOf = (expression: string): string => `least(coalesce(sum(${expression}), 0), 4611686018427387904)::BIGINT`;

/** The time that an agent reports, or the colony's if it is impossible. */
export const plausibleTime = (column: string, stored: string): string =>
  `CASE WHEN ${column} BETWEEN ${stored} - INTERVAL 3650 DAY AND ${stored} + INTERVAL 1 DAY THEN ${column} ELSE ${stored} END`;

/** Orders the rows of one agent: epochs are numbered in order of appearance, sequences rise within an epoch. */
export const rowOrder = "source::HUGEINT * 18446744073709551616 + seq";

/** A hash of several columns. It must not change between versions. The separator keeps adjacent texts apart. */
export const keyOf = (columns: readonly string[]): string => `md5_number_lower(concat_ws(chr(31), ${columns.join(", ")}))`;

/** Temporary tables take memory that the next statement may need. */
export const dropTables = (...names: string[]): string => names.map((name) => `DROP TABLE IF EXISTS temp.${name}`).join("; ");
