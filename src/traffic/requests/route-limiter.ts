/**
 * Bounds the number of routes per service. Where one position of a path has too many values, they are merged into `{id}`; routes that still do not
 * fit become `other` and are counted. Independent of clocks: `age()` is called once per window.
 */

import { idPlaceholder } from "./route-template.ts";

export const otherRoute = "other";

export interface RouteLimiterOptions {
  /** Default 200. */
  maxRoutesPerService?: number;
  /** Distinct values at one position of a path before they are merged. Default 48; four times that for the first segment. */
  maxSiblings?: number;
  /** Services kept at once; the least recently used is evicted. Default 2048. */
  maxServices?: number;
  /** Windows after which an unused route is evicted. Default 360: an hour of 10 s windows. */
  maxIdleWindows?: number;
}

interface Service {
  /** Routes as reported, with the window of their last use. */
  routes: Map<string, number>;
  /** Values seen after a prefix. */
  children: Map<string, Set<string>>;
  /** Prefixes after which every value is `{id}`. */
  merged: Set<string>;
  lastWindow: number;
}

/** Merged prefixes of a service above which its routes are learned from scratch. */
const maxMergedPrefixes = 1024;
/** A position with fewer values than this is not merged, even when the table is full. */
const minSiblingsToMerge = 8;

export class RouteLimiter {
  readonly #services = new Map<string, Service>();
  readonly #maxRoutes: number;
  readonly #maxSiblings: number;
  readonly #maxServices: number;
  readonly #maxIdleWindows: number;
  #window = 0;
  #overflow = 0;

  constructor(options: RouteLimiterOptions = {}) {
    this.#maxRoutes = options.maxRoutesPerService ?? 200;
    this.#maxSiblings = options.maxSiblings ?? 48;
    this.#maxServices = options.maxServices ?? 2048;
    this.#maxIdleWindows = options.maxIdleWindows ?? 360;
  }

  get serviceCount(): number {
    return this.#services.size;
  }

  /**
   * `service` identifies what has its own set of routes, such as process and port. `requests` count as overflow if the route becomes `other`; those
   * that have lost their route before were counted there.
   */
  limit(service: string, route: string, requests = 1): string {
    if (route === otherRoute) return route;
    const entry = this.#serviceOf(service);
    if (entry.routes.has(route)) {
      entry.routes.set(route, this.#window);
      return route;
    }
    let limited = normalise(entry, route);
    if (entry.routes.has(limited)) {
      entry.routes.set(limited, this.#window);
      return limited;
    }
    if (entry.routes.size >= this.#maxRoutes && this.#mergeWidest(entry)) limited = normalise(entry, route);
    if (entry.routes.size >= this.#maxRoutes && !entry.routes.has(limited)) {
      this.#overflow += requests;
      return otherRoute;
    }
    return this.#add(entry, limited);
  }

  /** Requests that became `other` since the last call. */
  takeOverflow(): number {
    const overflow = this.#overflow;
    this.#overflow = 0;
    return overflow;
  }

  /** A window has ended: evicts routes and services that have not been used for long. */
  age(): void {
    this.#window++;
    const oldest = this.#window - this.#maxIdleWindows;
    for (const [key, service] of this.#services) {
      if (service.lastWindow < oldest) this.#services.delete(key);
      else if (dropIdle(service, oldest)) rebuild(service);
    }
  }

  #serviceOf(key: string): Service {
    let service = this.#services.get(key);
    if (service === undefined) {
      if (this.#services.size >= this.#maxServices) this.#forgetOldest();
      service = { routes: new Map(), children: new Map(), merged: new Set(), lastWindow: this.#window };
      this.#services.set(key, service);
    }
    service.lastWindow = this.#window;
    return service;
  }

  #forgetOldest(): void {
    let oldestKey: string | undefined;
    let oldest = Number.POSITIVE_INFINITY;
    for (const [key, { lastWindow }] of this.#services) {
      if (lastWindow >= oldest) continue;
      oldest = lastWindow;
      oldestKey = key;
    }
    if (oldestKey !== undefined) this.#services.delete(oldestKey);
  }

  #add(entry: Service, route: string): string {
    entry.routes.set(route, this.#window);
    const tooWide = addChildren(entry, route, this.#maxSiblings);
    if (tooWide === null) return route;
    merge(entry, tooWide);
    const limited = normalise(entry, route);
    entry.routes.set(limited, this.#window);
    return limited;
  }

  /** Merges the position with the most values into `{id}`, to free slots. */
  #mergeWidest(entry: Service): boolean {
    let widest: string | null = null;
    let width = minSiblingsToMerge - 1;
    for (const [prefix, values] of entry.children) {
      if (values.size <= width) continue;
      width = values.size;
      widest = prefix;
    }
    if (widest === null) return false;
    merge(entry, widest);
    return true;
  }
}

/** Only paths have positions; SQL, commands and names are bounded by their number alone. */
function segmentsOf(route: string): string[] | null {
  return route.startsWith("/") && route.length > 1 ? route.slice(1).split("/") : null;
}

function normalise(entry: Service, route: string): string {
  const segments = entry.merged.size === 0 ? null : segmentsOf(route);
  if (segments === null) return route;
  let made = "";
  for (const segment of segments) made += `/${entry.merged.has(made) && segment !== "…" ? idPlaceholder : segment}`;
  return made;
}

/** Returns a prefix that now has too many values. */
function addChildren(entry: Service, route: string, maxSiblings: number): string | null {
  let prefix = "";
  for (const segment of segmentsOf(route) ?? []) {
    if (segment !== idPlaceholder && segment !== "…") {
      let values = entry.children.get(prefix);
      if (values === undefined) {
        values = new Set();
        entry.children.set(prefix, values);
      }
      values.add(segment);
      if (values.size > (prefix === "" ? 4 * maxSiblings : maxSiblings)) return prefix;
    }
    prefix += `/${segment}`;
  }
  return null;
}

function merge(entry: Service, prefix: string): void {
  if (entry.merged.size >= maxMergedPrefixes) entry.merged.clear();
  entry.merged.add(prefix);
  rebuild(entry);
}

/** Rebuilds routes and children after a merge. */
function rebuild(entry: Service): void {
  const routes = new Map<string, number>();
  for (const [route, window] of entry.routes) {
    const limited = normalise(entry, route);
    routes.set(limited, Math.max(window, routes.get(limited) ?? 0));
  }
  entry.routes = routes;
  entry.children = new Map();
  for (const route of routes.keys()) addChildren(entry, route, Number.POSITIVE_INFINITY);
}

function dropIdle(entry: Service, oldest: number): boolean {
  let isChanged = false;
  for (const [route, window] of entry.routes) {
    if (window >= oldest) continue;
    entry.routes.delete(route);
    isChanged = true;
  }
  return isChanged;
}
