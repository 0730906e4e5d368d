/** A version without build suffixes: `v1.7.0` of `v1.7.0-12-gabc`, `1.6.20` of `1.6.20~ds1`. */
export function shortVersion(text: string): string {
  return /^v?(\d{1,6}(?:\.\d{1,6}){0,3}(?:-(?:alpha|beta|rc)\.?\d{1,4})?)/.exec(text.trim())?.[1] ?? "";
}

/** `containerd`, `crio`, `docker`, or the name that it reports. */
export function runtimeTypeOf(name: string): string {
  const word = name
    .toLowerCase()
    .replace(/[^a-z0-9-]/g, "")
    .slice(0, 32);
  return word === "cri-o" ? "crio" : word === "" ? "unknown" : word;
}
