// `npm run check`: everything that can be said about the tree without running the product.
import { check } from "./lib/check.mjs";
import { reportFailure } from "./lib/report.mjs";

await check({ withBoundaries: true }).catch(reportFailure);
