/** Turns reports of instances and connections into services and edges, and stores names of external addresses. @module */

export { DiscoveryCycle } from "./discovery-cycle.ts";
export { defaultDiscoverySettings } from "./discovery-settings.ts";
export { addressesWithoutName, loadEndpointNames, type ResolvedEndpoint, storeEndpointNames } from "./endpoint-resolution.ts";
export { type NamingLimits, storeNamingLimits } from "./naming-limits.ts";
export { readServiceNames, type ServiceNameRow, type StoredServiceNames } from "./read-service-names.ts";
