import type { Database } from "../database.ts";
import type { CrashPoints } from "./crash-points.ts";
import type { SegmentCatalog } from "./segment-catalog.ts";
import type { LateUnlinks } from "./segment-files.ts";

/** All that has to follow when segments are taken away or put in the place of others: the manifest, its copy in memory, and the files. */
export interface ChangingSegments {
  database: Database;
  catalog: SegmentCatalog;
  unlinks: LateUnlinks;
  crashPoints: CrashPoints | undefined;
}
