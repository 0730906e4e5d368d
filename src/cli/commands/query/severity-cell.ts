import type { ColonyEvent } from "../../../model/events.ts";
import type { StyleName } from "../../output/style.ts";
import type { Cell } from "../../output/table.ts";

/** Colours an event's severity. Events have three levels, unlike log records, which have six. */
const styles: Record<ColonyEvent["severity"], StyleName | undefined> = { info: undefined, warning: "yellow", error: "red" };

export function severityCell({ severity }: ColonyEvent): Cell {
  const style = styles[severity];
  return style === undefined ? severity : { text: severity, style };
}
