// `npm run setup [-- --force]`: prepares the checkout for `npm start` and `npm test`. Runs before any package is installed.
import { requireNode } from "./lib/require-node.mjs";

requireNode();
const { setup } = await import("./lib/setup.mjs");
const { reportFailure } = await import("./lib/report.mjs");
await setup({ forTests: process.argv.includes("--tests"), force: process.argv.includes("--force") }).catch(reportFailure);
