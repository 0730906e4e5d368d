// Runs first, also on the Node versions that it turns away: nothing newer than modules themselves, no imports.

/** Ends the process with a clear message when this Node is too old. The same number stands in package.json "engines". */
export function requireNode() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  console.error(`Cannot run Coral on Node ${process.versions.node}: it needs Node 20.19 or newer; see https://nodejs.org/en/download`);
  process.exit(1);
}
