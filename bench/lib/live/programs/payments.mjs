// Charges cards at an external provider, and keeps a ledger if it has a disk for it.

import { Resolver } from "node:dns/promises";
import { open } from "node:fs/promises";
import { call, serve } from "./program.mjs";

const ledger = process.env.JOURNAL ? await open(`${process.env.JOURNAL}/ledger`, "a") : null;

const resolver = process.env.RESOLVER ? new Resolver() : null;
resolver?.setServers([process.env.RESOLVER]);

serve({
  "POST /charge": async () => {
    // As clients without a cache of names do.
    await resolver?.resolve4("provider.example");
    const charge = await call("provider", "POST", "/v1/charges");
    if (ledger) {
      await ledger.write(`${JSON.stringify(charge)}\n`);
      await ledger.datasync();
    }
    return charge;
  },
  "GET /charges/:id": async (id) => ({ id, state: "paid" }),
});
