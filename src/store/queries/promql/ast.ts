/** PromQL as a tree. Durations in milliseconds. */

export type Comparison = "==" | "!=" | ">" | "<" | ">=" | "<=";
export type Arithmetic = "+" | "-" | "*" | "/" | "%" | "^";
export type SetOperator = "and" | "or" | "unless";
export type BinaryOperator = Comparison | Arithmetic | SetOperator;

export interface Matcher {
  label: string;
  operator: "=" | "!=" | "=~" | "!~";
  value: string;
}

export interface Selector {
  type: "selector";
  matchers: Matcher[];
  /** Present: all samples of so long a time instead of the newest one. */
  rangeMs?: number;
  /** Positive: earlier. */
  offsetMs: number;
}

export interface Aggregation {
  type: "aggregation";
  operator: string;
  /** `without` when absent labels are dropped instead of kept. */
  grouping: { without: boolean; labels: string[] };
  parameter?: Expression;
  expression: Expression;
}

export interface Binary {
  type: "binary";
  operator: BinaryOperator;
  left: Expression;
  right: Expression;
  /** Comparisons answer 0 or 1 instead of dropping what is false. */
  isBool: boolean;
  /** Labels that must be equal on both sides; absent: all. */
  matching?: { on: boolean; labels: string[] };
}

export interface Call {
  type: "call";
  name: string;
  args: Expression[];
}

export type Expression =
  | { type: "number"; value: number }
  | { type: "negation"; expression: Expression }
  | Selector
  | Aggregation
  | Binary
  | Call;
