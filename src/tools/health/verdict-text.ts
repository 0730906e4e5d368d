/** Text for the verdicts of routes. */

import { routeText } from "../../model/route-text.ts";
import { count, microseconds, ratioText, share } from "./figures.ts";
import type { JudgedRoute } from "./judge-route.ts";

const subjectMax = 80;

export function routeName({ fact }: JudgedRoute): string {
  const subject = fact.route === "" && fact.method === "" ? "" : routeText(fact.method, fact.route);
  const name = subject === "" ? `${fact.protocol} requests` : subject;
  return name.length > subjectMax ? `${name.slice(0, subjectMax - 1)}…` : name;
}

/** `GET /checkout fails 100% of 42 requests, was 0.2%`. */
export function errorMessage(route: JudgedRoute): string {
  const { errors: verdict } = route;
  if (verdict === null) return "";
  const { ratio, requests, usual, isChronic } = verdict;
  const than = usual === null ? "" : isChronic ? `, as before (${share(usual)})` : `, was ${share(usual)}`;
  return `${routeName(route)} fails ${share(ratio)} of ${count(requests)} requests${than}`;
}

/** `GET /cart p95 is 294 ms, 5.1 times the 58 ms of the hour before`. */
export function slowMessage(route: JudgedRoute): string {
  const { slow } = route;
  if (slow === null) return "";
  const { p95Us, before, yesterday } = slow;
  const comparisons = [
    ...(before === null
      ? []
      : [`${ratioText(before.times)} the ${microseconds(before.p95Us)} of ${before.isSettled ? "the hour" : "the minutes"} before`]),
    ...(yesterday === null ? [] : [`${ratioText(yesterday.times)} the ${microseconds(yesterday.p95Us)} of yesterday at this time`]),
  ];
  return `${routeName(route)} p95 is ${microseconds(p95Us)}, ${comparisons.join(" and ")}`;
}

export function queueMessage(route: JudgedRoute): string {
  const { queueing } = route;
  if (queueing === null) return "";
  return `${routeName(route)} requests queue for ${microseconds(queueing.queueUs)} of ${microseconds(queueing.meanUs)}: too few workers or not enough CPU`;
}
