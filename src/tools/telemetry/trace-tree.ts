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
  /** Time in which none of the children that it waited for ran. */
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
 * From the end back: the child that ended last held its parent up until then; before it started, the one that ran at that time and ended first, else the
 * one that had ended last. Times at which no child ran are the parent's own. So the parts add up to the root's duration, and none exceeds the self time.
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

/** A time in which a span was on the critical path, with those below it. */
interface Stretch<S extends TreeSpan> {
  branch: Branch<S>;
  fromNs: number;
  untilNs: number;
}

function childStretches<S extends TreeSpan>({ branch, fromNs, untilNs }: Stretch<S>): Stretch<S>[] {
  const ending = waitedFor(branch).sort((a, b) => b.endNs - a.endNs || b.child.startNs - a.child.startNs);
  const stretches: Stretch<S>[] = [];
  /** Children that end at the cursor or later; the first to end is on top. */
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

/** How far a span may outlive its parent within one service and still count as awaited: instrumentation often ends the parent first. */
const toleratedOverrunNs = 1_000_000;
const toleratedOverrunShare = 0.01;

/** Children that their parent can have waited for, with their end within it. Unsorted. */
function waitedFor<S extends TreeSpan>(parent: Branch<S>): { child: Branch<S>; endNs: number }[] {
  const waited: { child: Branch<S>; endNs: number }[] = [];
  for (const child of parent.children) {
    if (child.span.kind === "consumer" || child.startNs >= parent.endNs || child.endNs <= child.startNs || outlives(child, parent))
      continue;
    waited.push({ child, endNs: Math.min(child.endNs, parent.endNs) });
  }
  return waited;
}

/** Within one service clocks agree: what goes on well after its parent was not waited for. Between hosts clocks may differ a little. */
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

/** Times that several children run at once count once. */
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
