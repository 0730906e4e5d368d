import type { SummaryRequestsFact } from "../../../model/summary.ts";
import type { RouteBaselines } from "./query-route-health.ts";
import { RememberedRows } from "./remembered-rows.ts";

/** Caches the baselines of all services, which change only every ten minutes. One for each store. */
export class BaselineMemory {
  readonly requests = new RememberedRows<SummaryRequestsFact[]>();
  readonly routes = new RememberedRows<RouteBaselines>();
}
