/** Drops undefined values, for options that may be absent but not undefined. */
export function given<T extends object>(parts: T): Given<T> {
  return Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== undefined)) as Given<T>;
}

export type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> };
