/** The syntax tree of a PromQL expression. Durations are in milliseconds. */

export type Comparison = "==" | "!=" | ">" | "<" | ">=" | "<=";
export type Arithmetic = "+" | "-" | "*" | "/" | "%" | "^" | "atan2";
export type SetOperator = "and" | "or" | "unless";
export type BinaryOperator = Comparison | Arithmetic | SetOperator;

export interface Matcher {
  label: string;
  operator: "=" | "!=" | "=~" | "!~";
  value: string;
}

/** The `offset` and `@` modifiers: when a selector or subquery is read, if not at the evaluation time. */
export interface Timing {
  /** Positive values shift the reading time into the past. */
  offsetMs: number;
  /** The `@` modifier: milliseconds since 1970, or `start()` or `end()` of the query. */
  at?: number | "start" | "end";
}

export interface Selector extends Timing {
  type: "selector";
  matchers: Matcher[];
  /** Set for a range vector: read all samples of this duration. Absent: read only the newest sample. */
  rangeMs?: number;
}

/** An expression evaluated at equal steps over a range. */
export interface Subquery extends Timing {
  type: "subquery";
  expression: Expression;
  rangeMs: number;
  stepMs: number;
}

export interface Aggregation {
  type: "aggregation";
  operator: string;
  /** `without` drops the listed labels; otherwise only the listed labels are kept. */
  grouping: { without: boolean; labels: string[] };
  parameter?: Expression;
  expression: Expression;
}

/** Vector matching: which labels must be equal on both sides. */
export interface Matching {
  /** True for `on`: match only these labels. False for `ignoring`: match all labels except these. */
  on: boolean;
  labels: string[];
  /**
   * `group_left` or `group_right`: the side on which several series may match one series of the other, and the labels to copy from that
   * one.
   */
  group?: { side: "left" | "right"; include: string[] };
}

export interface Binary {
  type: "binary";
  operator: BinaryOperator;
  left: Expression;
  right: Expression;
  /** The `bool` modifier: a comparison returns 0 or 1 instead of filtering. */
  isBool: boolean;
  /** Absent: match on all labels. */
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
