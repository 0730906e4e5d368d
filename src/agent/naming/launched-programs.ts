/** Running programs that were started with `coral run`. Their processes carry the name given there. */

/** In memory only. After a restart of the agent, the name comes from OTEL_SERVICE_NAME in the program's environment. */
export interface LaunchedPrograms {
  /** By process id. */
  readonly names: ReadonlyMap<number, string>;
  /** Returns a function that removes it. Both call `onChange`; adding calls it again after a moment, when the program may listen. */
  add(pid: number, name: string, onChange: () => void): () => void;
}

/** Bounds the walk to the parents: programs start workers, which start workers. */
const maxAncestors = 8;
/** Time for a started program to open its port before the second scan. */
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

/** The name of the program that a process belongs to. */
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
