import type { LogLevel } from "../../base/log.ts";

/** The `log` section of every daemon's config. */
export interface LogConfig {
  level: LogLevel;
  /** `auto` is text on a terminal and json elsewhere. */
  format: "auto" | "json" | "text";
}
