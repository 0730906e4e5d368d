// `npm run docs`: rewrites what is generated from src/: docs/cli.md, docs/config.md and src/cli/run/tool-inputs.ts.
import { writeDocuments } from "./lib/documentation.mjs";
import { reportFailure, say } from "./lib/report.mjs";

try {
  const written = await writeDocuments();
  say(written.length === 0 ? "generated documents are up to date" : `wrote ${written.join(", ")}`);
} catch (error) {
  reportFailure(error);
}
