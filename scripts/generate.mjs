// `npm run generate`: generates src/proto from proto/.
import { generateCode } from "./lib/generated-code.mjs";
import { reportFailure, say } from "./lib/report.mjs";

try {
  const changed = await generateCode({ write: true });
  say(changed.length === 0 ? "src/proto is up to date" : `rewrote ${changed.join(", ")}`);
} catch (error) {
  reportFailure(error);
}
