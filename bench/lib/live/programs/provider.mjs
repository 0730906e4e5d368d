// Simulates an external payment provider with its usual latency.

import { serve } from "./program.mjs";

serve({
  "POST /v1/charges": async () => {
    await new Promise((resolve) => setTimeout(resolve, 8 + 8 * Math.random()));
    return { id: "ch_1" };
  },
});
