// The shop's entry behind nginx: forwards each request to the responsible program.

import { call, serve } from "./program.mjs";

serve({
  "GET /items/:id": (id) => call("catalog", "GET", `/items/${id}`),
  "GET /search": () => call("catalog", "GET", "/search"),
  "POST /orders": () => call("orders", "POST", "/orders"),
  "GET /orders/:id": (id) => call("orders", "GET", `/orders/${id}`),
  "GET /reports/daily": () => call("orders", "GET", "/reports/daily"),
  "POST /payments": () => call("payments", "POST", "/charge"),
  "GET /payments/:id": (id) => call("payments", "GET", `/charges/${id}`),
});
