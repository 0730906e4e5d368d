/** Faults inside a program: its own code fails, is slow, or blocks its thread. */

import { type LiveFault, misbehaving } from "../live-fault.ts";

export const programFaults: readonly LiveFault[] = [
  misbehaving(
    { name: "one route of two fails", kind: "errors", service: "payments", pointers: ["POST /charge"] },
    { routes: { "POST /charge": { errorRatio: 1 } } },
  ),
  misbehaving(
    { name: "a third of a route fails", kind: "errors", service: "catalog", pointers: ["GET /search"] },
    { routes: { "GET /search": { errorRatio: 0.33 } } },
  ),
  misbehaving(
    { name: "a few requests fail", kind: "errors", service: "catalog", pointers: ["GET /items/"] },
    { routes: { "GET /items/:id": { errorRatio: 0.15 } } },
  ),
  misbehaving(
    { name: "a rare route fails", kind: "errors", service: "orders", pointers: ["GET /reports/daily"], windowSeconds: 12 },
    { routes: { "GET /reports/daily": { errorRatio: 1 } } },
  ),
  misbehaving(
    { name: "a leaf behind a worker fails", kind: "errors", service: "mailer", pointers: ["POST /send"] },
    { routes: { "POST /send": { errorRatio: 1 } } },
  ),
  misbehaving(
    { name: "a slow route", kind: "slow", service: "orders", pointers: ["GET /orders/"] },
    { routes: { "GET /orders/:id": { delayMs: 150 } } },
  ),
  misbehaving(
    { name: "a fifth of the requests is slow", kind: "slow", service: "payments", pointers: ["GET /charges/"] },
    { routes: { "GET /charges/:id": { part: 0.2, delayMs: 400 } } },
  ),
  misbehaving(
    { name: "a function that burns CPU", kind: "hot-function", service: "catalog", pointers: ["GET /search", "GET /items/"] },
    { routes: { "GET /search": { burnMs: 60 } } },
  ),
  misbehaving(
    { name: "a blocked event loop", kind: "blocked-event-loop", service: "payments", pointers: ["POST /charge", "GET /charges/"] },
    { blockMs: 120 },
  ),
  misbehaving(
    {
      name: "connections leak from a pool",
      kind: "pool-exhaustion",
      service: "orders",
      pointers: ["POST /orders", "GET /orders/", "GET /reports/daily"],
    },
    { leakConnections: 6 },
  ),
];
