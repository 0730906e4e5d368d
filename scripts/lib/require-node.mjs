// Runs first, also on unsupported Node versions: no imports, and no syntax newer than ES modules.

/** Exits with an error message if this Node is too old. Keep the version in step with "engines" in package.json. */
export function requireNode() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  console.error(`Cannot run Coral on Node ${process.versions.node}: it needs Node 20.19 or newer; see https://nodejs.org/en/download`);
  process.exit(1);
}
