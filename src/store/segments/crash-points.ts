/** Points between two durable steps. Tests kill the process at each of them. */
export type CrashPoint =
  | "body-written"
  | "file-cut"
  | "segment-written"
  | "segment-renamed"
  | "manifest-committed"
  | "write-ahead-removed"
  | "merge-written"
  | "merge-renamed"
  | "merge-committed"
  | "prune-committed"
  | "pull-written"
  | "pull-renamed"
  | "pull-committed";

export interface CrashPoints {
  reached(point: CrashPoint): void;
}
