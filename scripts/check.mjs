// `npm run check`: all static checks.
import { check } from "./lib/check.mjs";
import { reportFailure } from "./lib/report.mjs";

await check({ withBoundaries: true }).catch(reportFailure);
