/** Loaded only for `-o yaml`. */

export { stringify } from "yaml";
