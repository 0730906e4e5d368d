// `npm run generate`: generates src/proto from proto/, and the C header of protocols from src/model/protocols.ts.
import { generateCode } from "./lib/generated-code.mjs";
import { reportFailure, say } from "./lib/report.mjs";

try {
  const changed = await generateCode({ write: true });
  say(changed.length === 0 ? "generated code is up to date" : `rewrote ${changed.join(", ")}`);
} catch (error) {
  reportFailure(error);
}
