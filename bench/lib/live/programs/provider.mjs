// Stands for a payment provider outside: as slow as one.

import { serve } from "./program.mjs";

serve({
  "POST /v1/charges": async () => {
    await new Promise((resolve) => setTimeout(resolve, 8 + 8 * Math.random()));
    return { id: "ch_1" };
  },
});
