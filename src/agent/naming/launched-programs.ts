/** Programs that `coral run` has started here and that still run. What listens or calls in their name carries the name that they were given. */

export interface LaunchedPrograms {
  /** By process id. */
  readonly names: ReadonlyMap<number, string>;
  /** The returned function forgets it. Both are told by `onChange`, the beginning once more a moment later: a program needs one to listen. */
  add(pid: number, name: string, onChange: () => void): () => void;
}

/** Bounds the walk to a parent; programs start workers, and those start theirs. */
const maxAncestors = 8;
const settleMs = 1_500;

export function createLaunchedPrograms(): LaunchedPrograms {
  const names = new Map<number, string>();
  return {
    names,
    add: (pid, name, onChange) => {
      names.set(pid, name);
      onChange();
      const again = setTimeout(onChange, settleMs).unref();
      return () => {
        clearTimeout(again);
        names.delete(pid);
        onChange();
      };
    },
  };
}

/** The name of the program that a process is, or belongs to. */
export function launchedName(
  names: ReadonlyMap<number, string>,
  pid: number,
  parentOf: (pid: number) => number | undefined,
): string | undefined {
  let at: number | undefined = pid;
  for (let depth = 0; names.size > 0 && at !== undefined && at > 1 && depth < maxAncestors; depth++) {
    const name = names.get(at);
    if (name !== undefined) return name;
    at = parentOf(at);
  }
  return undefined;
}
