/** Who calls whom. */
export class CallGraph {
  readonly #callees = new Map<string, Set<string>>();
  readonly #callers = new Map<string, Set<string>>();

  constructor(calls: readonly { caller: string; callee: string }[]) {
    for (const { caller, callee } of calls) {
      if (caller === callee) continue;
      add(this.#callees, caller, callee);
      add(this.#callers, callee, caller);
    }
  }

  get isEmpty(): boolean {
    return this.#callees.size === 0;
  }

  calleesOf(service: string): string[] {
    return [...(this.#callees.get(service) ?? [])];
  }

  callersOf(service: string): string[] {
    return [...(this.#callers.get(service) ?? [])];
  }

  /** These services and all services they call, directly or indirectly. */
  reachableFrom(services: readonly string[]): Set<string> {
    const seen = new Set(services);
    for (const one of seen) for (const callee of this.calleesOf(one)) seen.add(callee);
    return seen;
  }

  /** A shortest path of calls including both ends; empty if there is none. */
  path(from: string, to: string): string[] {
    const cameFrom = new Map([[from, ""]]);
    for (const [one] of cameFrom) {
      if (one === to) break;
      for (const callee of this.calleesOf(one)) if (!cameFrom.has(callee)) cameFrom.set(callee, one);
    }
    if (!cameFrom.has(to)) return [];
    const path = [to];
    for (let one = cameFrom.get(to); one !== undefined && one !== ""; one = cameFrom.get(one)) path.unshift(one);
    return path;
  }
}

function add(map: Map<string, Set<string>>, key: string, value: string): void {
  const known = map.get(key);
  if (known) known.add(value);
  else map.set(key, new Set([value]));
}
