// `npm start`: setup, then `coral up` in the same process, so that Ctrl-C reaches it directly and its exit code is kept.
import { fileURLToPath } from "node:url";
import { requireNode } from "./lib/require-node.mjs";

requireNode();
const { setup } = await import("./lib/setup.mjs");
const { reportFailure } = await import("./lib/report.mjs");
try {
  await setup({ forTests: false });
} catch (error) {
  reportFailure(error);
  process.exit();
}
const program = new URL("../bin/coral", import.meta.url);
process.argv.splice(1, 1, fileURLToPath(program), "up");
await import(program.href);
