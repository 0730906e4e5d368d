/** What we use of the YAML library, behind one lazy import: loading it costs a command more than reading its config. */

export { isMap, LineCounter, parseDocument, stringify } from "yaml";
