/**
 * Writes the template of a statement: normalises spaces, replaces literals by `?`, collapses lists of values, and keeps only the first of
 * several tuples.
 */

/** The last token written; decides about spaces and the meaning of a sign. */
type Token = "start" | "word" | "literal" | "open" | "close" | "comma" | "dot" | "operator" | "comparison";

/** Words after which an expression starts. Most are reserved, so a column of that name must be quoted. */
const wordsBeforeValues = new Set(
  (
    "SELECT DISTINCT ALL LIMIT OFFSET TOP BETWEEN AND OR XOR NOT THEN ELSE WHEN CASE WHERE HAVING ON BY RETURNING RETURN SET TO IN LIKE ILIKE RLIKE " +
    "REGEXP SIMILAR ESCAPE IS FROM FOR FETCH DEFAULT INTERVAL DIV MOD VALUES USING WITH MINVALUE MAXVALUE START INCREMENT RESTART ANY SOME"
  ).split(" "),
);

export class SqlTemplateWriter {
  readonly #maxLength: number;
  #out = "";
  #last: Token = "start";
  #lastWord = "";
  #isBlankBefore = false;
  #isCommaPending = false;
  #isEndPending = false;
  #isStopped = false;
  #depth = 0;
  /** One bit per depth: the list at that depth contains values and collapses into one. Deeper than 31, nothing collapses. */
  #valueLists = 0;
  /** Depth at which tuples of values follow each other, or -1; all but the first are omitted. */
  #tuplesDepth = -1;
  #isTupleOver = false;
  #isMuted = false;

  constructor(maxLength: number) {
    this.#maxLength = maxLength;
  }

  /** The template is complete; the rest can be ignored. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Number of open brackets. */
  get depth(): number {
    return this.#depth;
  }

  get isInValueList(): boolean {
    return this.#depth > 0 && this.#depth <= 31 && (this.#valueLists & (1 << this.#depth)) !== 0;
  }

  /** A plus or minus here is the sign of the number that follows. */
  get isSignNext(): boolean {
    if (this.#isCommaPending || this.#isEndPending) return true;
    if (this.#last === "word") return wordsBeforeValues.has(this.#lastWord);
    return this.#last === "open" || this.#last === "comma" || this.#last === "comparison" || this.#last === "operator";
  }

  /** A dot here starts a number if digits follow, and does not separate table and column. */
  get isNumberNext(): boolean {
    return this.#isBlankBefore || this.#last !== "word";
  }

  blank(): void {
    this.#isBlankBefore = true;
  }

  /** `upper`: in capitals, empty for what cannot be a keyword. */
  word(text: string, upper: string): void {
    this.put(text, "word");
    this.#lastWord = upper;
  }

  literal(): void {
    if (this.#isCommaPending && !this.#isTupleOver) {
      this.#isCommaPending = false;
      return;
    }
    // Adjacent strings 'a' 'b' are one string.
    if (this.#last === "literal" && !this.#isEndPending) return;
    this.put("?", "literal");
  }

  /** Call if the rest cannot be distinguished from a literal. */
  stopAfterLiteral(): void {
    this.literal();
    this.#isStopped = true;
  }

  open(bracket: "(" | "["): void {
    const isValueList =
      bracket === "[" ||
      this.#lastWord === "IN" ||
      this.#lastWord === "VALUES" ||
      (this.#tuplesDepth === this.#depth && this.#last !== "word");
    if (this.#isTupleOver && this.#tuplesDepth === this.#depth && this.#isCommaPending) {
      this.#isMuted = true;
      this.#isCommaPending = false;
    }
    this.#isTupleOver = false;
    // A tuple directly inside IN ( … ).
    if (this.#last === "open" && this.isInValueList) this.#tuplesDepth = this.#depth;
    if (isValueList && this.#last === "word" && bracket === "(") this.#isBlankBefore = true;
    this.put(bracket, "open");
    this.#depth++;
    if (this.#depth > 31) return;
    if (isValueList || this.#tuplesDepth === this.#depth - 1) this.#valueLists |= 1 << this.#depth;
    else this.#valueLists &= ~(1 << this.#depth);
  }

  close(bracket: ")" | "]"): void {
    this.#isCommaPending = false;
    if (this.#depth > 0) this.#depth--;
    this.put(bracket, "close");
    if (this.#depth < this.#tuplesDepth) this.#tuplesDepth = -1;
    if (this.#depth === this.#tuplesDepth) {
      this.#isMuted = false;
      this.#isTupleOver = true;
    }
  }

  comma(): void {
    if ((this.#isTupleOver && this.#depth === this.#tuplesDepth) || (this.#last === "literal" && this.isInValueList)) {
      this.#isCommaPending = true;
      return;
    }
    this.put(",", "comma");
  }

  /** Call if tuples of values follow. */
  expectTuples(): void {
    this.#tuplesDepth = this.#depth;
  }

  endStatement(): void {
    if (this.#out !== "") this.#isEndPending = true;
    this.#isMuted = false;
    this.#tuplesDepth = -1;
  }

  put(text: string, token: Token): void {
    const isBlankBefore = this.#isBlankBefore;
    this.#isBlankBefore = false;
    if (this.#isMuted) return;
    if (this.#isEndPending) {
      this.#isEndPending = false;
      this.#out += ";";
      this.#last = "comma";
    } else if (this.#isCommaPending) {
      this.#isCommaPending = false;
      this.#isTupleOver = false;
      this.#out += ",";
      this.#last = "comma";
    }
    if (isSpaced(this.#last, token, isBlankBefore)) this.#out += " ";
    this.#out += text;
    this.#last = token;
    if (token !== "word") this.#lastWord = "";
    if (this.#out.length > this.#maxLength) this.#isStopped = true;
  }

  /** The template; ends with `…` if something is missing. */
  finish(isCut: boolean): string {
    const template = this.#isStopped || isCut ? `${this.#out.slice(0, this.#maxLength - 1).trimEnd()}…` : this.#out;
    // A quoted name may contain anything, and templates are shown on terminals.
    return /\p{Cc}/u.test(template) ? template.replace(/\p{Cc}/gu, " ") : template;
  }
}

function isSpaced(last: Token, next: Token, isBlankBefore: boolean): boolean {
  if (last === "start" || last === "open" || last === "dot") return false;
  if (next === "close" || next === "comma" || next === "dot") return false;
  if (last === "comma" || last === "comparison" || next === "comparison") return true;
  if ((last === "word" || last === "literal" || last === "close") && (next === "word" || next === "literal")) return true;
  return isBlankBefore;
}
