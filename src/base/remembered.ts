/** The value of the key; created and stored if absent. */
export function remembered<K, V>(memory: Map<K, V>, key: K, make: () => V): V {
  const known = memory.get(key);
  if (known !== undefined) return known;
  const value = make();
  memory.set(key, value);
  return value;
}
