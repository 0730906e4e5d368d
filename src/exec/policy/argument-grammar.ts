/**
 * Checks that a program's arguments are known to be harmless, parsed as getopt parses them. Refuses everything else: unknown or abbreviated
 * options, and operands that do not match.
 */

/** The problem with a value, to be printed after it; undefined if it is valid. */
export type ValueCheck = (value: string) => string | undefined;

/** `flag` takes no value, `optional` may have one attached, a check validates the value that must follow. */
export type OptionRule = "flag" | { value: ValueCheck } | { optional: ValueCheck };

/** What is allowed. Anything that is not listed is refused. */
export interface ArgumentGrammar {
  /** Letters of options without a value. */
  flags?: string;
  /** By letter. */
  short?: Readonly<Record<string, OptionRule>>;
  /** By name, without the two hyphens. */
  long?: Readonly<Record<string, OptionRule>>;
  /** Absent: no operands are allowed. */
  operand?: ValueCheck;
  maxOperands?: number;
  /** Checks combinations of arguments. Options are given as `-x` or `--name`. */
  whole?: (used: UsedArguments) => string | undefined;
}

/** What was found. `-c5` and `-c 5` give the same result. */
export interface UsedArguments {
  options: ReadonlyMap<string, readonly string[]>;
  operands: readonly string[];
  /** The options in order, split into separate words: `-nc5` is `-n`, `-c`, `5`. */
  words: readonly string[];
}

/** The problem, ready to print; undefined if there is none. */
export function checkArguments(args: readonly string[], grammar: ArgumentGrammar): string | undefined {
  return new Reader(args, grammar).check();
}

/** Parses arguments without checking them, for a program whose arguments were checked before. */
export function readArguments(args: readonly string[], grammar: ArgumentGrammar): UsedArguments {
  let used: UsedArguments = { options: new Map(), operands: [], words: [] };
  checkArguments(args, {
    ...grammar,
    whole: (all) => {
      used = all;
      return undefined;
    },
  });
  return used;
}

/** Permutes like GNU getopt: options may follow operands until `--`. */
class Reader {
  readonly #args: readonly string[];
  readonly #grammar: ArgumentGrammar;
  readonly #options = new Map<string, string[]>();
  readonly #operands: string[] = [];
  readonly #words: string[] = [];
  #at = 0;

  constructor(args: readonly string[], grammar: ArgumentGrammar) {
    this.#args = args;
    this.#grammar = grammar;
  }

  check(): string | undefined {
    let isEnded = false;
    for (; this.#at < this.#args.length; this.#at++) {
      const word = this.#args[this.#at] ?? "";
      let problem: string | undefined;
      if (isEnded || !word.startsWith("-") || word === "-") problem = this.#takeOperand(word);
      else if (word === "--") isEnded = true;
      else problem = word.startsWith("--") ? this.#takeLong(word) : this.#takeShort(word);
      if (problem !== undefined) return problem;
    }
    return this.#grammar.whole?.({ options: this.#options, operands: this.#operands, words: this.#words });
  }

  #takeOperand(word: string): string | undefined {
    const { operand, maxOperands = 64 } = this.#grammar;
    if (!operand) return `"${word}" is not allowed`;
    this.#operands.push(word);
    if (this.#operands.length > maxOperands) return `"${word}" is one operand too many`;
    const problem = operand(word);
    return problem === undefined ? undefined : `"${word}" ${problem}`;
  }

  #takeLong(word: string): string | undefined {
    const [name = "", ...rest] = word.slice(2).split("=");
    const given = rest.length === 0 ? undefined : rest.join("=");
    const rule = ownRule(this.#grammar.long, name);
    if (rule === undefined) return `option "--${name}" is not allowed`;
    return this.#takeValue(`--${name}`, rule, given, false);
  }

  #takeShort(word: string): string | undefined {
    const { flags = "", short } = this.#grammar;
    for (let index = 1; index < word.length; index++) {
      const letter = word[index] ?? "";
      const rule = flags.includes(letter) ? "flag" : ownRule(short, letter);
      if (rule === undefined) return `option "-${letter}" is not allowed`;
      if (rule === "flag") {
        this.#use(`-${letter}`);
        continue;
      }
      return this.#takeValue(`-${letter}`, rule, word.slice(index + 1) || undefined, true);
    }
    return undefined;
  }

  #takeValue(option: string, rule: OptionRule, given: string | undefined, isShort: boolean): string | undefined {
    if (rule === "flag") {
      if (given !== undefined && !isShort) return `option "${option}" does not accept a value`;
      this.#use(option);
      return undefined;
    }
    if ("optional" in rule) {
      this.#use(option, given);
      const problem = given === undefined ? undefined : rule.optional(given);
      return problem === undefined ? undefined : `option "${option}": "${given}" ${problem}`;
    }
    const value = given ?? this.#args[++this.#at];
    if (value === undefined) return `option "${option}" needs a value`;
    this.#use(option, value);
    const problem = rule.value(value);
    return problem === undefined ? undefined : `option "${option}": "${value}" ${problem}`;
  }

  #use(option: string, value?: string): void {
    const values = this.#options.get(option) ?? [];
    if (value !== undefined) values.push(value);
    this.#options.set(option, values);
    if (value === undefined) this.#words.push(option);
    else this.#words.push(...(option.startsWith("--") ? [`${option}=${value}`] : [option, value]));
  }
}

function ownRule(rules: Readonly<Record<string, OptionRule>> | undefined, name: string): OptionRule | undefined {
  return rules !== undefined && Object.hasOwn(rules, name) ? rules[name] : undefined;
}

/** A value that matches an expression and is not an option itself. */
export function matching(expression: RegExp, what = "is not allowed here"): ValueCheck {
  return (value) => (expression.test(value) && !value.startsWith("-") ? undefined : what);
}

/** A plain decimal number. */
export function upTo(max: number): ValueCheck {
  return (value) => (/^\d{1,9}(?:\.\d{1,3})?$/.test(value) && Number(value) <= max ? undefined : `is not a number of at most ${max}`);
}

export function oneOf(...values: string[]): ValueCheck {
  return (value) => (values.includes(value) ? undefined : `is not one of ${values.join(", ")}`);
}

/** Names, numbers, lists of them, field lists: nothing that is a path, a URL or an option. */
export const plainWord = matching(/^[\w.:@,%=*^~#][\w.:@,+%=*^~#-]{0,255}$/, "is not a plain word");

export const anyText: ValueCheck = (value) => (value.length <= 4_096 ? undefined : "is too long");

/** Only the name of a file is used, never its content. Absolute, so that it cannot be read as an option or a variable. */
export const absolutePath: ValueCheck = (value) => (value.startsWith("/") && value.length <= 4_096 ? undefined : "is not an absolute path");
