import type { SummaryRequestsFact } from "../../../model/summary.ts";
import type { RouteBaselines } from "./query-route-health.ts";
import { RowCache } from "./row-cache.ts";

/** Caches the baselines of all services, which change only every ten minutes. One per store. */
export class BaselineCache {
  readonly requests = new RowCache<SummaryRequestsFact[]>();
  readonly routes = new RowCache<RouteBaselines>();
}
