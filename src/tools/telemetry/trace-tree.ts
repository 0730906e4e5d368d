/**
 * Builds the tree of one trace: parents, self time and critical path. Pure. Handles chains of any depth, missing parents, cyclic
 * ids and clock skew between hosts.
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
  /** Number of descendants. */
  descendants: number;
  /** After the start of the trace, including `clockShiftNs`. */
  startNs: number;
  /** Time in which no awaited child ran. */
  selfNs: number;
  /** Its share of the critical path; null for spans not on it. */
  criticalNs: number | null;
  /** It names a parent that is missing. */
  isOrphan: boolean;
  /** Correction of the start for clock skew, for a span outside of its parent on another host. */
  clockShiftNs: number;
}

export interface TraceTree<S extends TreeSpan = TreeSpan> {
  /** Depth first, children by start. */
  nodes: TreeNode<S>[];
  /** First start to last end. */
  durationNs: number;
  /** Microseconds since 1970. */
  startUs: number;
  /** Parents that are named but missing. */
  missingParents: number;
  /** Spans that were shifted, without their descendants. */
  shiftedSpans: number;
}

/** Node under construction. */
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

/** Links spans to their parents; returns the number of missing parents. */
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
    // Some tracers give both ends of a call the same id: the server span becomes a child of the client span.
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

/** Parent ids can form a cycle; the first span of each cycle becomes a root. */
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
 * Corrects clock skew. A child cannot start before its parent, and a successful call cannot end before its response. A span of
 * another service that does is shifted, with its descendants, to the middle of its parent, as if both network directions took
 * equally long. Spans of one service keep their clock; a child that fits into its parent's original position moves with the parent.
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

/** The first span without a parent id, else the longest span whose parent is missing. */
function mainRoot<S extends TreeSpan>(roots: readonly Branch<S>[]): Branch<S> | undefined {
  const real = roots.filter(({ isOrphan }) => !isOrphan);
  return (real.length > 0 ? real : [...roots]).sort((a, b) => b.endNs - b.startNs - (a.endNs - a.startNs) || byStart(a, b))[0];
}

/**
 * Walks back from the end. The child that ended last delayed its parent until then; before its start, the child running at that
 * time that ended first, else the one that ended last. Time without a running child belongs to the parent. The parts add up to
 * the duration of the root, and no part exceeds the self time.
 */
function markCritical<S extends TreeSpan>(root: Branch<S>): void {
  const waiting: Stretch<S>[] = [{ branch: root, fromNs: root.startNs, untilNs: root.endNs }];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const parts = childStretches(next);
    for (const part of parts) waiting.push(part);
    const childrenNs = parts.reduce((sum, { fromNs, untilNs }) => sum + untilNs - fromNs, 0);
    next.branch.criticalNs = next.untilNs - next.fromNs - childrenNs;
  }
}

/** An interval of the critical path, within one span and its descendants. */
interface Stretch<S extends TreeSpan> {
  branch: Branch<S>;
  fromNs: number;
  untilNs: number;
}

function childStretches<S extends TreeSpan>({ branch, fromNs, untilNs }: Stretch<S>): Stretch<S>[] {
  const ending = waitedFor(branch).sort((a, b) => b.endNs - a.endNs || b.child.startNs - a.child.startNs);
  const stretches: Stretch<S>[] = [];
  /** Heap of children that end at the cursor or later; the earliest end is on top. */
  const running: Branch<S>[] = [];
  let cursorNs = untilNs;
  let index = 0;
  while (cursorNs > fromNs) {
    for (let next = ending[index]; next && next.endNs >= cursorNs; next = ending[++index]) running.push(next.child);
    const child = running.pop();
    if (child === undefined) {
      cursorNs = Math.max(fromNs, ending[index]?.endNs ?? fromNs);
    } else if (child.startNs < cursorNs) {
      const startNs = Math.max(child.startNs, fromNs);
      stretches.push({ branch: child, fromNs: startNs, untilNs: cursorNs });
      cursorNs = startNs;
    }
  }
  return stretches;
}

/** Tolerance within one service for a child that outlives its parent and still counts as awaited: instrumentation often ends the parent first. */
const toleratedOverrunNs = 1_000_000;
const toleratedOverrunShare = 0.01;

/** Children that the parent can have awaited, with their end clipped to it. Unsorted. */
function waitedFor<S extends TreeSpan>(parent: Branch<S>): { child: Branch<S>; endNs: number }[] {
  const waited: { child: Branch<S>; endNs: number }[] = [];
  for (const child of parent.children) {
    if (child.span.kind === "consumer" || child.startNs >= parent.endNs || child.endNs <= child.startNs || outlives(child, parent))
      continue;
    waited.push({ child, endNs: Math.min(child.endNs, parent.endNs) });
  }
  return waited;
}

/** Within one service, a child that runs well past its parent was not awaited. Between hosts clocks may differ a little. */
function outlives<S extends TreeSpan>(child: Branch<S>, parent: Branch<S>): boolean {
  if (child.span.service !== parent.span.service) return false;
  const overrunNs = child.endNs - parent.endNs;
  const toleratedNs = Math.max(toleratedOverrunNs, (parent.endNs - parent.startNs) * toleratedOverrunShare);
  return overrunNs > Math.min(toleratedNs, parent.endNs - child.startNs);
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

/** Length of the union: overlapping children count once. */
function selfTimeNs<S extends TreeSpan>(branch: Branch<S>): number {
  const { startNs, endNs } = branch;
  let coveredNs = 0;
  let reachedNs = startNs;
  for (const waited of waitedFor(branch).sort((a, b) => a.child.startNs - b.child.startNs)) {
    const from = Math.max(reachedNs, waited.child.startNs);
    if (waited.endNs <= from) continue;
    coveredNs += waited.endNs - from;
    reachedNs = waited.endNs;
  }
  return endNs - startNs - coveredNs;
}
