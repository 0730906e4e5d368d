/** Matches whole names against patterns; `*` matches any text. An empty list matches nothing. */
export function matcherOf(patterns: readonly string[]): (name: string) => boolean {
  if (patterns.length === 0) return () => false;
  const exact = new Set(patterns.filter((pattern) => !pattern.includes("*")));
  const open = patterns.filter((pattern) => pattern.includes("*")).map((pattern) => pattern.split(/\*+/));
  return (name) => exact.has(name) || open.some((parts) => isMatch(parts, name));
}

/** Matches each literal piece at its first position after the previous one, without backtracking. */
function isMatch(parts: readonly string[], name: string): boolean {
  const [first = "", ...rest] = parts;
  const last = rest.pop() ?? "";
  if (!name.startsWith(first) || name.length < first.length + last.length || !name.endsWith(last)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found < 0 || found + part.length > name.length - last.length) return false;
    at = found + part.length;
  }
  return true;
}
