/**
 * The tree of one trace: who started whom, what each span did itself, and which spans decided how long it took. Pure; works for chains of any
 * depth, for spans whose parent is missing, for ids that form a circle, and for clocks that differ between hosts.
 */

export interface TreeSpan {
  spanId: string;
  parentSpanId: string | null;
  service: string;
  /** `client`, `server`, `internal`, `producer`, `consumer`, `unspecified`. */
  kind: string;
  /** Microseconds since 1970. */
  startUs: number;
  durationNs: number;
  /** `unset`, `ok`, `error`. */
  status: string;
}

export interface TreeNode<S extends TreeSpan = TreeSpan> {
  span: S;
  /** 0 for a root. */
  depth: number;
  /** Index in `nodes`; null for a root. */
  parent: number | null;
  /** Children, grandchildren and so on. */
  descendants: number;
  /** After the start of the trace, with `clockShiftNs` in it. */
  startNs: number;
  /** Time in which none of its children ran. */
  selfNs: number;
  /** Its part of the critical path; null for spans that are not on it. */
  criticalNs: number | null;
  /** Its parent is named and not there. */
  isOrphan: boolean;
  /** What was added to its start because it lies outside of its parent, which is on another host, as it cannot. */
  clockShiftNs: number;
}

export interface TraceTree<S extends TreeSpan = TreeSpan> {
  /** Depth first, children by start. */
  nodes: TreeNode<S>[];
  /** First start to last end. */
  durationNs: number;
  /** Microseconds since 1970. */
  startUs: number;
  /** Spans that are named as parents and are not there. */
  missingParents: number;
  /** Spans that were moved, their descendants not counted. */
  shiftedSpans: number;
}

/** While the tree is being built. */
interface Branch<S extends TreeSpan> {
  span: S;
  parent: Branch<S> | null;
  children: Branch<S>[];
  startNs: number;
  endNs: number;
  shiftNs: number;
  ownShift: boolean;
  isOrphan: boolean;
  criticalNs: number | null;
}

export function buildTraceTree<S extends TreeSpan>(spans: readonly S[]): TraceTree<S> {
  const firstUs = spans.reduce((first, { startUs }) => Math.min(first, startUs), Number.POSITIVE_INFINITY);
  const branches = spans.map((span): Branch<S> => {
    const startNs = (span.startUs - firstUs) * 1_000;
    const endNs = startNs + Math.max(0, span.durationNs);
    return { span, parent: null, children: [], startNs, endNs, shiftNs: 0, ownShift: false, isOrphan: false, criticalNs: null };
  });
  const missing = linkParents(branches);
  const roots = [...branches.filter(({ parent }) => parent === null), ...breakCircles(branches)];
  moveClocks(roots);
  const first = branches.reduce((least, { startNs }) => Math.min(least, startNs), Number.POSITIVE_INFINITY);
  const last = branches.reduce((most, { endNs }) => Math.max(most, endNs), Number.NEGATIVE_INFINITY);
  const main = mainRoot(roots);
  if (main) markCritical(main);
  for (const { children } of branches) children.sort(byStart);
  return {
    nodes: flatten(roots.sort(byStart), spans.length > 0 ? first : 0),
    durationNs: spans.length > 0 ? last - first : 0,
    startUs: spans.length > 0 ? firstUs + Math.floor(first / 1_000) : 0,
    missingParents: missing,
    shiftedSpans: branches.filter(({ ownShift }) => ownShift).length,
  };
}

const byStart = <S extends TreeSpan>(a: Branch<S>, b: Branch<S>): number =>
  a.startNs - b.startNs || b.endNs - a.endNs || (a.span.spanId < b.span.spanId ? -1 : 1);

/** Gives each its parent; returns how many parents are missing. */
function linkParents<S extends TreeSpan>(branches: readonly Branch<S>[]): number {
  const byId = new Map<string, Branch<S>[]>();
  for (const branch of branches) {
    const same = byId.get(branch.span.spanId);
    if (same) same.push(branch);
    else byId.set(branch.span.spanId, [branch]);
  }
  const missing = new Set<string>();
  for (const branch of branches) {
    const { spanId, parentSpanId, kind, service } = branch.span;
    // Some tracers give the two ends of a call the same id: the server's span belongs under the client's.
    const shared = kind === "server" ? byId.get(spanId)?.find((other) => other.span.kind === "client") : undefined;
    const named = parentSpanId === null ? undefined : byId.get(parentSpanId);
    const parent = shared ?? named?.find((other) => other.span.service === service && other.span.kind === "server") ?? named?.at(-1);
    if (parent !== undefined && parent !== branch) {
      branch.parent = parent;
      parent.children.push(branch);
    } else if (parentSpanId !== null && parentSpanId !== spanId) {
      branch.isOrphan = true;
      missing.add(parentSpanId);
    }
  }
  return missing.size;
}

/** Ids can form a circle, by accident or on purpose: the first span of each becomes a root. */
function breakCircles<S extends TreeSpan>(branches: readonly Branch<S>[]): Branch<S>[] {
  const seen = new Set<Branch<S>>();
  for (const branch of branches) if (branch.parent === null) walk(branch, seen);
  const roots: Branch<S>[] = [];
  for (const branch of branches.filter((one) => !seen.has(one)).sort(byStart)) {
    if (seen.has(branch)) continue;
    const { parent } = branch;
    if (parent) parent.children = parent.children.filter((child) => child !== branch);
    branch.parent = null;
    branch.isOrphan = true;
    roots.push(branch);
    walk(branch, seen);
  }
  return roots;
}

function walk<S extends TreeSpan>(root: Branch<S>, seen: Set<Branch<S>>): void {
  const waiting = [root];
  for (let branch = waiting.pop(); branch; branch = waiting.pop()) {
    if (seen.has(branch)) continue;
    seen.add(branch);
    for (const child of branch.children) waiting.push(child);
  }
}

/**
 * Nothing begins before what started it, and no call that went well ends before it was answered. A span of another service that seems to has
 * another clock: it and what it started are moved to the middle of its parent, as if the way there and back took the same. Clocks within one service are taken as they are; one that would fit into
 * its parent where that was before moves with it.
 */
function moveClocks<S extends TreeSpan>(roots: readonly Branch<S>[]): void {
  const waiting = [...roots];
  for (let branch = waiting.pop(); branch; branch = waiting.pop()) {
    const { parent } = branch;
    if (parent) {
      const isSameClock = parent.span.service === branch.span.service;
      branch.shiftNs = isSameClock || isOutside(branch, parent, 0) ? parent.shiftNs : 0;
      if (!isSameClock && isOutside(branch, parent, branch.shiftNs)) {
        const slackNs = parent.endNs - parent.startNs - (branch.endNs - branch.startNs);
        branch.shiftNs = parent.startNs + Math.max(0, Math.floor(slackNs / 2)) - branch.startNs;
        branch.ownShift = true;
      }
      branch.startNs += branch.shiftNs;
      branch.endNs += branch.shiftNs;
    }
    for (const child of branch.children) waiting.push(child);
  }
}

function isOutside<S extends TreeSpan>(branch: Branch<S>, parent: Branch<S>, shiftNs: number): boolean {
  const startNs = branch.startNs + shiftNs;
  const isAnswered = parent.span.kind === "client" && branch.span.kind === "server" && parent.span.status !== "error";
  return startNs < parent.startNs || (isAnswered && startNs > parent.endNs);
}

/** The first span that has no parent; when that is missing, the longest of those whose parent is. */
function mainRoot<S extends TreeSpan>(roots: readonly Branch<S>[]): Branch<S> | undefined {
  const real = roots.filter(({ isOrphan }) => !isOrphan);
  return (real.length > 0 ? real : [...roots]).sort((a, b) => b.endNs - b.startNs - (a.endNs - a.startNs) || byStart(a, b))[0];
}

/**
 * From the end back: the child that ended last held its parent up until then; before it started, the one that had ended last by then, and so
 * on. What is left is the parent's own. The parts add up to the root's duration.
 */
function markCritical<S extends TreeSpan>(root: Branch<S>): void {
  const waiting: { branch: Branch<S>; fromNs: number; untilNs: number }[] = [{ branch: root, fromNs: root.startNs, untilNs: root.endNs }];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { branch, fromNs, untilNs } = next;
    let cursorNs = untilNs;
    let ownNs = 0;
    for (const { child, endNs } of waitedFor(branch)) {
      if (endNs > cursorNs || endNs <= fromNs) continue;
      const startNs = Math.max(child.startNs, fromNs);
      ownNs += cursorNs - endNs;
      waiting.push({ branch: child, fromNs: startNs, untilNs: endNs });
      cursorNs = startNs;
    }
    branch.criticalNs = ownNs + (cursorNs - fromNs);
  }
}

/** Children that their parent can have waited for, the last to end first. */
function waitedFor<S extends TreeSpan>(branch: Branch<S>): { child: Branch<S>; endNs: number }[] {
  const waited: { child: Branch<S>; endNs: number }[] = [];
  for (const child of branch.children) {
    // Within one service clocks agree: what goes on after its parent was not waited for. Between hosts they may differ a little.
    const isOutliving = child.endNs > branch.endNs && child.span.service === branch.span.service;
    if (isOutliving || child.span.kind === "consumer" || child.startNs >= branch.endNs || child.endNs <= child.startNs) continue;
    waited.push({ child, endNs: Math.min(child.endNs, branch.endNs) });
  }
  return waited.sort((a, b) => b.endNs - a.endNs || a.child.startNs - b.child.startNs);
}

function flatten<S extends TreeSpan>(roots: readonly Branch<S>[], originNs: number): TreeNode<S>[] {
  const nodes: TreeNode<S>[] = [];
  const waiting = roots.toReversed().map((branch) => ({ branch, depth: 0, parent: null as number | null }));
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { branch, depth, parent } = next;
    const index = nodes.length;
    nodes.push({
      span: branch.span,
      depth,
      parent,
      descendants: 0,
      startNs: branch.startNs - originNs,
      selfNs: selfTimeNs(branch),
      criticalNs: branch.criticalNs,
      isOrphan: branch.isOrphan,
      clockShiftNs: branch.shiftNs,
    });
    for (const child of branch.children.toReversed()) waiting.push({ branch: child, depth: depth + 1, parent: index });
  }
  for (const node of nodes.toReversed()) {
    const parent = node.parent === null ? undefined : nodes[node.parent];
    if (parent) parent.descendants += node.descendants + 1;
  }
  return nodes;
}

/** Children are sorted by start. Times that several run at once count once. */
function selfTimeNs<S extends TreeSpan>({ startNs, endNs, children }: Branch<S>): number {
  let coveredNs = 0;
  let reachedNs = startNs;
  for (const child of children) {
    const from = Math.max(reachedNs, child.startNs);
    const until = Math.min(endNs, child.endNs);
    if (until <= from) continue;
    coveredNs += until - from;
    reachedNs = until;
  }
  return endNs - startNs - coveredNs;
}
