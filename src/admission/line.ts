/**
 * The line of joiners that wait. An entry costs one write when it is made; asking again only keeps its lease alive.
 * Its age is the key's create revision, so the order is the same for every replica and never a clock's.
 */
import { createHash } from 'node:crypto'
import type { KeyValue, World } from './ports.ts'
import { revoke } from './lease.ts'
import type { ClusterView, JoinRequest, LineEntry, Policy } from './types.ts'

export const LINE_PREFIX = 'line/'

const CALL_TIMEOUT_MS = 2_000
/** The delay that a joiner leaves to each older one that may be present at another replica, and its limit (design 5.5). */
const RANK_DELAY_MS = 20
const MAX_RANK_DELAY_MS = 500

/** An etcd that takes no entry (NOSPACE, an election) is not asked again for every joiner. */
const RETRY_AFTER_FAILURE_MS = 1_000

/** The key of a joiner's place: the same joiner finds it again through any replica. */
export function lineKey (request: Pick<JoinRequest, 'node' | 'peerUrl'>): string {
  return LINE_PREFIX + createHash('sha256').update(`${request.node}\n${request.peerUrl}`).digest('hex').slice(0, 32)
}

/** Reads an entry; undefined for what is none. */
export function parseLineEntry (pair: KeyValue): LineEntry | undefined {
  try {
    const value = JSON.parse(pair.value) as Partial<LineEntry>
    return {
      key: pair.key,
      node: String(value.node),
      peerAddress: String(value.peerAddress),
      replica: String(value.replica),
      createRevision: pair.createRevision,
      leaseId: pair.leaseId
    }
  } catch {
    return undefined
  }
}

export interface Place {
  readonly createRevision: bigint
}

export interface Line {
  /** Takes a place, or finds the one that this joiner has and renews it. `full`: there is none to be had. `failed`: etcd did not take it. */
  enter: (view: ClusterView, request: JoinRequest) => Promise<{ readonly kind: 'place'; readonly place: Place } | { readonly kind: 'full' | 'failed' }>
  /** Gives the joiner's place up: it has been let in, or refused. */
  leave: (view: ClusterView | undefined, request: JoinRequest) => void
  /** The request of this joiner is held here, from now until the returned function is called. */
  hold: (request: JoinRequest) => () => void
  /** Is an older joiner known to be present, since its request is held here? */
  olderPresent: (request: JoinRequest) => boolean
  /**
   * How long this joiner must leave to older ones whose requests other replicas may be holding. Milliseconds.
   * An entry that names this replica, and is not held here, is absent as long as there is no other replica.
   */
  rankDelayMs: (view: ClusterView, request: JoinRequest) => number
  /** 0 for the next; undefined when it has no place. */
  position: (view: ClusterView, request: JoinRequest) => number | undefined
}

export function createLine (world: World, policy: Policy, replica: string): Line {
  /** Places taken or seen through this replica, and when their leases were last renewed. */
  const places = new Map<string, { leaseId: string; createRevision: bigint; renewedAtMs: number }>()
  const held = new Map<string, number>()
  /** Places being taken this moment: a crowd that arrives within one view must not get past the limit. */
  const taking = new Set<string>()
  let failedAtMs = Number.NEGATIVE_INFINITY

  function isFresh (renewedAtMs: number): boolean {
    return world.clock.now() - renewedAtMs < policy.lineTtlMs / 3
  }

  async function renew (key: string, entry: LineEntry): Promise<boolean> {
    const place = places.get(key)
    if (place?.leaseId === entry.leaseId && isFresh(place.renewedAtMs)) return true
    const renewedAtMs = world.clock.now()
    const result = await world.store.leaseKeepAlive(entry.leaseId, { timeoutMs: CALL_TIMEOUT_MS })
    if (!result.ok && result.failure.kind === 'lease-not-found') return false
    if (result.ok) places.set(key, { leaseId: entry.leaseId, createRevision: entry.createRevision, renewedAtMs })
    return true
  }

  async function take (key: string, request: JoinRequest): Promise<{ readonly kind: 'place'; readonly place: Place } | { readonly kind: 'failed' }> {
    const renewedAtMs = world.clock.now()
    const granted = await world.store.leaseGrant(policy.lineTtlMs, { timeoutMs: CALL_TIMEOUT_MS })
    if (!granted.ok) return { kind: 'failed' }
    const leaseId = granted.value
    const value = JSON.stringify({ node: request.node, peerAddress: request.peerAddress, replica })
    const result = await world.store.txn({
      compare: [{ key, createRevision: 0n }],
      success: [{ op: 'put', key, value, leaseId }],
      failure: [{ op: 'get', key }]
    }, { timeoutMs: CALL_TIMEOUT_MS })
    if (result.ok && result.value.succeeded) {
      places.set(key, { leaseId, createRevision: result.value.revision, renewedAtMs })
      return { kind: 'place', place: { createRevision: result.value.revision } }
    }
    // Not taken, or nobody knows: without its lease there can be no entry of ours that nobody renews.
    void revoke(world, leaseId)
    const existing = result.ok ? result.value.reads[0]?.[0] : undefined
    if (existing === undefined) return { kind: 'failed' }
    // Taken through another replica a moment ago: renewed there, and to be renewed here at the next asking.
    places.set(key, { leaseId: existing.leaseId, createRevision: existing.createRevision, renewedAtMs: Number.NEGATIVE_INFINITY })
    return { kind: 'place', place: { createRevision: existing.createRevision } }
  }

  function revisionOf (view: ClusterView | undefined, key: string): bigint | undefined {
    return view?.line.find(entry => entry.key === key)?.createRevision ?? places.get(key)?.createRevision
  }

  /** How many stand in the line, with those that came after the view was read. */
  function crowd (view: ClusterView): number {
    const listed = new Set(view.line.map(entry => entry.key))
    let since = taking.size
    for (const [key, place] of places) if (!listed.has(key) && place.renewedAtMs >= view.takenAtMs) since++
    return listed.size + since
  }

  function forgetOld (): void {
    const now = world.clock.now()
    for (const [key, place] of places) if (now - place.renewedAtMs > policy.lineTtlMs && !held.has(key)) places.delete(key)
  }

  return {
    async enter (view, request) {
      const key = lineKey(request)
      const entry = view.line.find(candidate => candidate.key === key)
      if (entry !== undefined && await renew(key, entry)) return { kind: 'place', place: { createRevision: entry.createRevision } }
      const taken = places.get(key)
      if (entry === undefined && taken !== undefined && isFresh(taken.renewedAtMs)) return { kind: 'place', place: { createRevision: taken.createRevision } }
      if (crowd(view) >= policy.maxLine) return { kind: 'full' }
      if (taking.has(key) || world.clock.now() - failedAtMs < RETRY_AFTER_FAILURE_MS) return { kind: 'failed' }
      forgetOld()
      taking.add(key)
      const result = await take(key, request)
      taking.delete(key)
      if (result.kind === 'failed') failedAtMs = world.clock.now()
      return result
    },
    leave (view, request) {
      const key = lineKey(request)
      const leaseId = view?.line.find(entry => entry.key === key)?.leaseId ?? places.get(key)?.leaseId
      places.delete(key)
      if (leaseId !== undefined) void revoke(world, leaseId)
    },
    hold (request) {
      const key = lineKey(request)
      held.set(key, (held.get(key) ?? 0) + 1)
      return () => {
        const left = (held.get(key) ?? 1) - 1
        if (left > 0) held.set(key, left)
        else held.delete(key)
      }
    },
    olderPresent (request) {
      const own = lineKey(request)
      const mine = places.get(own)?.createRevision
      for (const key of held.keys()) {
        if (key === own) continue
        const theirs = places.get(key)?.createRevision
        if (theirs !== undefined && (mine === undefined || theirs < mine)) return true
      }
      return false
    },
    rankDelayMs (view, request) {
      const own = lineKey(request)
      const mine = revisionOf(view, own)
      const alone = view.replicas.every(info => info.id === replica)
      const rank = view.line.filter(entry =>
        entry.key !== own && !held.has(entry.key) && (mine === undefined || entry.createRevision < mine) && (entry.replica !== replica || !alone)
      ).length
      return Math.min(MAX_RANK_DELAY_MS, rank * RANK_DELAY_MS)
    },
    position (view, request) {
      const mine = revisionOf(view, lineKey(request))
      return mine === undefined ? undefined : view.line.filter(entry => entry.createRevision < mine).length
    }
  }
}
