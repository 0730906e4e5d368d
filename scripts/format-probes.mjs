// The part of `npm run format` that formats the kernel programs.
import { formatProbes, whyNoClangFormat } from "./lib/clang-format.mjs";
import { reportFailure, warn } from "./lib/report.mjs";

try {
  const reason = await whyNoClangFormat();
  if (reason === undefined) await formatProbes({ write: true });
  else warn(`probes/ is not formatted: ${reason}`);
} catch (error) {
  reportFailure(error);
}
