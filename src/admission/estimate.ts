/**
 * When to come back: an honest estimate, for Retry-After. Pure. It is a hint to people and joiners; nothing is decided by it.
 */
import { pendingMembers, voters } from './quorum.ts'
import type { ClusterView } from './types.ts'

/** etcd lets a member in only when its voters have been connected to each other for this long (HealthInterval, etcd 3.4 to 3.7). */
export const SETTLING_MS = 5_000
/** What a join takes where none has been measured yet: settling, and a second to start and catch up. */
const USUAL_JOIN_MS = 6_000
/** How many of the newest joins the median is taken from. */
const RECENT_JOINS = 9
/** The limits of Retry-After. Seconds. */
const MIN_RETRY_S = 1
const MAX_RETRY_S = 60

/** The median time from admission to voter of the newest joins. Milliseconds. */
export function medianJoinMs (view: ClusterView): number {
  const times = [...view.records.values()]
    .filter(stored => stored.record.tookMs !== undefined)
    .sort((a, b) => a.modRevision < b.modRevision ? 1 : -1)
    .slice(0, RECENT_JOINS)
    .map(stored => stored.record.tookMs ?? USUAL_JOIN_MS)
    .sort((a, b) => a - b)
  return times[Math.floor(times.length / 2)] ?? USUAL_JOIN_MS
}

/** What etcd's settling rule still needs, as far as this replica can tell. Milliseconds. */
export function settlingLeftMs (view: ClusterView): number {
  const all = voters(view)
  if (all.length < 2) return 0
  const newest = Math.min(...all.map(voter => voter.aliveForMs))
  return Math.max(0, SETTLING_MS - newest)
}

/**
 * Retry-After for a joiner: its place in the line × the median join time, less what the running join has used already,
 * and at least what settling still needs.
 * @param position its place in the line, 0 for the next; undefined when it has none
 * @returns whole seconds, 1 to 60
 */
export function retryAfterSeconds (view: ClusterView | undefined, position: number | undefined): number {
  if (view === undefined) return 2
  const median = medianJoinMs(view)
  const [pending] = pendingMembers(view)
  const running = pending !== undefined || view.slot !== undefined ? 1 : 0
  const used = pending === undefined ? 0 : Math.min(median, pending.seenForMs)
  const place = (position ?? view.line.length) + running
  const waitMs = Math.max(place * median - used, settlingLeftMs(view))
  return Math.min(MAX_RETRY_S, Math.max(MIN_RETRY_S, Math.ceil(waitMs / 1000)))
}
