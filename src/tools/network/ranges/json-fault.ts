/** Finds the first syntax error in JSON. JavaScript engines do not always report a position, and quote untrusted text. */

const space = /[ \t\n\r]*/y;
const literal = /(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)/y;

/** Expected next token: a value, a key, or a delimiter. */
type Expected = "value" | "value-or-end" | "key" | "key-or-end" | "colon" | "comma-or-end" | "nothing";

/** Offset of the first invalid character; the length when the text is truncated. Only for text that `JSON.parse` rejected. */
export function findJsonFault(text: string): number {
  const closers: string[] = [];
  let expected: Expected = "value";
  let at = 0;
  for (;;) {
    at = skip(space, text, at);
    const char = text[at];
    if (char === undefined || expected === "nothing") return at;
    if (expected.endsWith("-or-end") && char === closers.at(-1)) {
      closers.pop();
      at++;
      expected = afterValue(closers);
    } else if (expected === "colon" || expected === "comma-or-end") {
      if (char !== (expected === "colon" ? ":" : ",")) return at;
      at++;
      expected = expected === "comma-or-end" && closers.at(-1) === "}" ? "key" : "value";
    } else if (char === '"') {
      const end = stringEnd(text, at);
      if (end < 0) return -end;
      at = end;
      expected = expected.startsWith("key") ? "colon" : afterValue(closers);
    } else if (expected.startsWith("key")) {
      return at;
    } else if (char === "{" || char === "[") {
      closers.push(char === "{" ? "}" : "]");
      at++;
      expected = char === "{" ? "key-or-end" : "value-or-end";
    } else {
      const end = skip(literal, text, at);
      if (end === at) return at;
      at = end;
      expected = afterValue(closers);
    }
  }
}

function afterValue(closers: readonly string[]): Expected {
  return closers.length > 0 ? "comma-or-end" : "nothing";
}

/** Offset after the closing quote, or the offset of the error as a negative number. */
function stringEnd(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x22) return at + 1;
    if (code < 0x20) return -at;
    if (code !== 0x5c) continue;
    const escape = /^(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/.exec(text.slice(at + 1, at + 6));
    if (!escape) return -at;
    at += escape[0].length;
  }
  return -text.length;
}

function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return at + (pattern.exec(text)?.[0].length ?? 0);
}
