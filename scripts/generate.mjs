// `npm run generate`: src/proto from proto/.
import { generateCode } from "./lib/generated-code.mjs";
import { reportFailure, say } from "./lib/report.mjs";

try {
  const changed = await generateCode({ write: true });
  say(changed.length === 0 ? "src/proto was up to date" : `rewrote ${changed.join(", ")}`);
} catch (error) {
  reportFailure(error);
}
