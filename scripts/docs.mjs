// `npm run docs`: rewrites the documents that are generated from code.
import { writeDocuments } from "./lib/documentation.mjs";
import { reportFailure, say } from "./lib/report.mjs";

try {
  const written = await writeDocuments();
  say(written.length === 0 ? "generated documents are up to date" : `wrote ${written.join(", ")}`);
} catch (error) {
  reportFailure(error);
}
