// Charges cards at an outside provider.

import { call, serve } from "./program.mjs";

serve({
  "POST /charge": () => call("provider", "POST", "/v1/charges"),
  "GET /charges/:id": async (id) => ({ id, state: "paid" }),
});
