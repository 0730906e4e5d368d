/** Formats request figures for tables, pages and lines. */

import type { RedFinding, RedRow } from "../../../tools/index.ts";
import { sparkline } from "../../output/sparkline.ts";
import type { StyleName } from "../../output/style.ts";
import { type Cell, type Column, valueColumn } from "../../output/table.ts";
import { latency, percent, rate } from "../../output/values.ts";

export const findingStyles: Record<RedFinding["severity"], StyleName> = { critical: "red", warning: "yellow", info: "cyan" };

/** Red from 5 % on, yellow above zero. */
export function errorCell(ratio: number): Cell {
  const text = percent(ratio);
  if (ratio > 0.05) return { text, style: "red" };
  return ratio > 0 ? { text, style: "yellow" } : text;
}

/** Sparkline of the rate, scaled from zero to its maximum. */
export function rateLine(points: readonly number[]): string {
  return points.some((point) => point > 0) ? sparkline(points, 0) : "";
}

/** CSV gets microseconds, people a scaled value. */
export function latencyColumn<Row>(
  title: string,
  key: string,
  read: (row: Row) => number | null,
  style?: (row: Row) => StyleName | undefined,
): Column<Row> {
  return {
    title,
    key,
    align: "right",
    cell: (row) => {
      const name = style?.(row);
      return name === undefined ? latency(read(row)) : { text: latency(read(row)), style: name };
    },
    raw: read,
  };
}

export function rateColumn<Row>(read: (row: Row) => number): Column<Row> {
  return valueColumn("REQ/S", "perSecond", read, rate, { align: "right" });
}

/** HTTP over TLS is shown as https; with a share in brackets when only some requests used TLS. */
export function protocolText({ source, protocol, isTls, requests, tlsRequests }: RedRow): string {
  if (source === "spans") return protocol === "span" ? "from spans" : `${protocol} from spans`;
  if (!isTls || protocol === "tls") return protocol;
  const tls = protocol === "http" ? "s" : "+tls";
  return `${protocol}${tlsRequests < requests ? `(${tls})` : tls}`;
}
