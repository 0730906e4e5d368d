/** PromQL as a tree. Durations in milliseconds. */

export type Comparison = "==" | "!=" | ">" | "<" | ">=" | "<=";
export type Arithmetic = "+" | "-" | "*" | "/" | "%" | "^" | "atan2";
export type SetOperator = "and" | "or" | "unless";
export type BinaryOperator = Comparison | Arithmetic | SetOperator;

export interface Matcher {
  label: string;
  operator: "=" | "!=" | "=~" | "!~";
  value: string;
}

/** When a selector or subquery is read, other than at the time of evaluation. */
export interface Timing {
  /** Positive: earlier. */
  offsetMs: number;
  /** Milliseconds since 1970, or an end of the whole query, whatever the time of evaluation. */
  at?: number | "start" | "end";
}

export interface Selector extends Timing {
  type: "selector";
  matchers: Matcher[];
  /** Present: all samples of so long a time instead of the newest one. */
  rangeMs?: number;
}

/** The values of an expression at equal steps, as a range. */
export interface Subquery extends Timing {
  type: "subquery";
  expression: Expression;
  rangeMs: number;
  stepMs: number;
}

export interface Aggregation {
  type: "aggregation";
  operator: string;
  /** `without` when absent labels are dropped instead of kept. */
  grouping: { without: boolean; labels: string[] };
  parameter?: Expression;
  expression: Expression;
}

/** Which labels must be equal on both sides. */
export interface Matching {
  /** Only these labels, else all but these. */
  on: boolean;
  labels: string[];
  /** The side on which several series may match one of the other side, and the labels that they take over from it. */
  group?: { side: "left" | "right"; include: string[] };
}

export interface Binary {
  type: "binary";
  operator: BinaryOperator;
  left: Expression;
  right: Expression;
  /** Comparisons answer 0 or 1 instead of dropping what is false. */
  isBool: boolean;
  /** Absent: all labels must be equal. */
  matching?: Matching;
}

export interface Call {
  type: "call";
  name: string;
  args: Expression[];
}

export type Expression =
  | { type: "number"; value: number }
  | { type: "text"; value: string }
  | { type: "negation"; expression: Expression }
  | Selector
  | Subquery
  | Aggregation
  | Binary
  | Call;
