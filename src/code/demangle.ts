/**
 * Demangles C++ and Rust function names, without parameters and template arguments: `_ZN4node7FastRunEi` → `node::FastRun`. Names that need
 * more of the grammar than plain paths are returned unchanged: a wrong name is worse than an ugly one.
 */

const maxLength = 4_096;
const maxNesting = 64;
const standard: Readonly<Record<string, string>> = {
  t: "std",
  a: "std::allocator",
  b: "std::basic_string",
  s: "std::string",
  i: "std::istream",
  o: "std::ostream",
  d: "std::iostream",
};
const operators: Readonly<Record<string, string>> = {
  nw: "new",
  na: "new[]",
  dl: "delete",
  da: "delete[]",
  pl: "+",
  mi: "-",
  ml: "*",
  dv: "/",
  eq: "==",
  ne: "!=",
  lt: "<",
  gt: ">",
  le: "<=",
  ge: ">=",
  aS: "=",
  pL: "+=",
  ls: "<<",
  rs: ">>",
  ix: "[]",
  cl: "()",
  pt: "->",
  de: "*",
  pp: "++",
  mm: "--",
  nt: "!",
};
/** `h` and 16 hex digits, which Rust appends to make names unique. */
const rustHash = /^h[0-9a-f]{16}$/;

/** Returns names unchanged that are not mangled, or in an unknown way. */
export function demangle(name: string): string {
  const suffix = /^_Z.*?((?:\.(?:part|cold|isra|constprop|localalias|lto_priv|llvm)(?:\.\d+)*)+)$/.exec(name)?.[1] ?? "";
  const mangled = suffix === "" ? name : name.slice(0, -suffix.length);
  if (!mangled.startsWith("_Z") || mangled.length > maxLength) return name;
  const parts = new Path(mangled.slice(2)).read();
  if (parts === null) return name;
  if (parts.length > 1 && rustHash.test(parts.at(-1) ?? "")) return parts.slice(0, -1).map(rustPart).join("::");
  return parts.join("::");
}

const rustEscapes: Readonly<Record<string, string>> = {
  LT: "<",
  GT: ">",
  RF: "&",
  BP: "*",
  C: ",",
  u20: " ",
  u7b: "{",
  u7d: "}",
  u5b: "[",
  u5d: "]",
};

/** `_$LT$T$u20$as$u20$core..fmt..Debug$GT$` → `<T as core::fmt::Debug>` */
function rustPart(part: string): string {
  const plain = part.replace(/^_(?=\$)/, "").replaceAll(/\$(\w+)\$/g, (all, code: string) => rustEscapes[code] ?? all);
  return plain.replaceAll("..", "::");
}

class Path {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Null if it is not a plain path. */
  read(): string[] | null {
    const text = this.#text;
    if (text[0] === "N") {
      this.#at = 1;
      while (/[rVKRO]/.test(text[this.#at] ?? "")) this.#at++;
      return this.#nested();
    }
    if (text.startsWith("St")) {
      this.#at = 2;
      const name = this.#source();
      return name === null ? null : ["std", name];
    }
    // A function inside another: the outer name is enough.
    if (text[0] === "Z") {
      this.#at = 1;
      const inner = new Path(text.slice(1)).read();
      return inner;
    }
    if (text[0] === "L") this.#at = 1;
    const name = this.#source();
    return name === null ? null : [name];
  }

  /** Reads up to the `E` that ends it. */
  #nested(): string[] | null {
    const parts: string[] = [];
    for (;;) {
      const letter = this.#text[this.#at];
      if (letter === undefined) return null;
      if (letter === "E") return parts.length === 0 ? null : parts;
      if (letter === "I") {
        if (parts.length === 0 || !this.#skip()) return null;
        continue;
      }
      const part = this.#part(parts);
      if (part === null) return null;
      if (part !== "") parts.push(part);
    }
  }

  #part(parts: readonly string[]): string | null {
    const text = this.#text;
    const letter = text[this.#at] ?? "";
    if (/\d/.test(letter)) return this.#source();
    const two = text.slice(this.#at, this.#at + 2);
    if (letter === "S") {
      const known = standard[two[1] ?? ""];
      if (known === undefined || parts.length > 0) return null;
      this.#at += 2;
      return known;
    }
    if (letter === "L") {
      this.#at++;
      return "";
    }
    if (letter === "B") {
      this.#at++;
      return this.#source() === null ? null : "";
    }
    const last = parts.at(-1);
    if (/^[CD]\d$/.test(two) && last !== undefined) {
      this.#at += 2;
      return letter === "C" ? last : `~${last}`;
    }
    const operator = operators[two];
    if (operator === undefined) return null;
    this.#at += 2;
    return `operator${/^\w/.test(operator) ? " " : ""}${operator}`;
  }

  /** `4node` */
  #source(): string | null {
    const digits = /^\d{1,4}/.exec(this.#text.slice(this.#at, this.#at + 4))?.[0];
    if (digits === undefined) return null;
    const start = this.#at + digits.length;
    const end = start + Number(digits);
    if (Number(digits) === 0 || end > this.#text.length) return null;
    this.#at = end;
    const name = this.#text.slice(start, end);
    return name.startsWith("_GLOBAL__N") ? "(anonymous)" : name;
  }

  /** Skips template arguments, from `I` to their `E`. Names in them must be parsed, because they may contain any letter. */
  #skip(): boolean {
    let nesting = 0;
    for (;;) {
      const letter = this.#text[this.#at];
      if (letter === undefined || nesting > maxNesting) return false;
      if (/[1-9]/.test(letter)) {
        if (this.#source() === null) return false;
        continue;
      }
      if (letter === "L") {
        if (!this.#skipLiteral()) return false;
        continue;
      }
      if (letter === "S" || letter === "T") {
        const reference = /^(?:S[tabsiod]|[ST][0-9A-Z]*_)/.exec(this.#text.slice(this.#at, this.#at + 12))?.[0];
        if (reference === undefined) return false;
        this.#at += reference.length;
        continue;
      }
      // Function types, expressions, decltype: not supported.
      if (letter === "X" || letter === "D" || letter === "Z" || letter === "U") {
        const declared = /^D[niadefhsupo]/.test(this.#text.slice(this.#at, this.#at + 2));
        if (!declared) return false;
        this.#at += 2;
        continue;
      }
      this.#at++;
      if (/[INFJ]/.test(letter)) nesting++;
      else if (letter === "E" && --nesting === 0) return true;
    }
  }

  /** `Lb1E`, `Lj4294967295E`, `LN3foo3barE2E` */
  #skipLiteral(): boolean {
    const simple = /^L[a-z]n?\d*E/.exec(this.#text.slice(this.#at, this.#at + 32))?.[0];
    if (simple !== undefined) {
      this.#at += simple.length;
      return true;
    }
    this.#at++;
    if (this.#text[this.#at] === "N") {
      this.#at++;
      if (this.#nested() === null) return false;
      this.#at++;
    } else if (this.#source() === null) return false;
    const value = /^n?\d*E/.exec(this.#text.slice(this.#at, this.#at + 32))?.[0];
    if (value === undefined) return false;
    this.#at += value.length;
    return true;
  }
}
