// Items from Redis, and a search that takes some CPU time.

import { createHash } from "node:crypto";
import { serve } from "./program.mjs";
import { Redis } from "./redis.mjs";

const redis = new Redis();
const text = Buffer.alloc(4 * 1024 * 1024, "coral");

serve({
  "GET /items/:id": async (id) => {
    const found = await redis.run("GET", `item:${id}`);
    if (found === null) await redis.run("SET", `item:${id}`, `item ${id}`);
    return { id, name: found ?? `item ${id}` };
  },
  "GET /search": async () => {
    await redis.run("SET", "last-search", String(Date.now()));
    return { digest: createHash("sha256").update(text).digest("hex") };
  },
});
