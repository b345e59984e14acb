/**
 * What the admission protocol needs of the world: a clock, etcd's membership, a look at each member, and a
 * key-value store with leases and transactions. Production binds them to etcd3 (src/etcd/), the simulation to a
 * model. The core gets answers as values: a failure that matters is a case to be handled, not an exception.
 */
import type { Member, MemberId, Probe } from './types.ts'

/**
 * Every failure that the protocol tells apart. One table (src/etcd/outcomes.ts) maps (gRPC code, message) to these.
 * never-sent: the request provably never left. ambiguous: it may have been done; only reading back tells.
 */
export type FailureKind =
  | 'never-sent' | 'ambiguous' | 'cancelled'
  | 'no-quorum' | 'learner-endpoint'
  | 'unhealthy' | 'not-enough-started' | 'peer-url-exists' | 'member-id-exists' | 'too-many-learners'
  | 'not-in-sync' | 'not-learner' | 'member-not-found'
  | 'lease-not-found' | 'no-space' | 'corrupt' | 'overloaded' | 'auth' | 'invalid' | 'compacted' | 'internal'

export interface Failure {
  readonly kind: FailureKind
  /** etcd's or gRPC's own words. */
  readonly message: string
  /** Numeric gRPC status code; undefined when the failure is not etcd's. */
  readonly code?: number | undefined
}

export type Result<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly failure: Failure }

export function ok<T> (value: T): Result<T> {
  return { ok: true, value }
}

export function fail (kind: FailureKind, message: string, code?: number): { readonly ok: false; readonly failure: Failure } {
  return { ok: false, failure: { kind, message, code } }
}

/** True when a write that failed so may have been done all the same: only reading back tells. */
export function isOutcomeUnknown (failure: Failure): boolean {
  return failure.kind === 'ambiguous' || failure.kind === 'cancelled' || failure.kind === 'no-quorum' || failure.kind === 'internal'
}

/** Every call on etcd has a deadline; some can be given up earlier. */
export interface CallOptions {
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
}

/** Monotonic time, and waiting on it. */
export interface Clock {
  /** Milliseconds on a clock that no one can set; only differences mean anything. */
  now: () => number
  /** RFC 3339 wall-clock time, for people only: nothing is decided from it. */
  date: () => string
  /** Resolves after `ms`, or at once when `signal` aborts; never rejects. */
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
}

export interface KeyValue {
  readonly key: string
  readonly value: string
  readonly createRevision: bigint
  readonly modRevision: bigint
  /** Decimal; '0' when the key is bound to none. */
  readonly leaseId: string
}

/** Keys here are relative to Lockkeeper's prefix (design 3), e.g. `slot`, `line/ab12`. */
export type Compare =
  | { readonly key: string; readonly createRevision: bigint }
  | { readonly key: string; readonly modRevision: bigint }

export type ReadOp =
  | { readonly op: 'get'; readonly key: string }
  | { readonly op: 'range'; readonly prefix: string; readonly minModRevision?: bigint }

export type Op =
  | ReadOp
  | { readonly op: 'put'; readonly key: string; readonly value: string; readonly leaseId?: string }
  | { readonly op: 'delete'; readonly key: string }

export interface TxnReply {
  readonly revision: bigint
  readonly succeeded: boolean
  /** One entry an operation of the branch that ran: the pairs a read found, none for a write. */
  readonly reads: ReadonlyArray<readonly KeyValue[]>
}

export interface Txn {
  readonly compare: readonly Compare[]
  readonly success: readonly Op[]
  readonly failure?: readonly Op[]
}

export interface MemberList {
  /** Decimal. */
  readonly clusterId: string
  readonly members: readonly Member[]
}

/** keys: these were put or deleted. resync: the watch is on (again), what was missed is unknown. lost: the watch is off. */
export type Change =
  | { readonly kind: 'keys'; readonly keys: readonly string[] }
  | { readonly kind: 'resync' }
  | { readonly kind: 'lost' }

/** The key-value store under Lockkeeper's prefix. Writes are never repeated by the implementation. */
export interface Store {
  txn: (txn: Txn, options: CallOptions) => Promise<Result<TxnReply>>
  /** Grants a lease of `ttlMs` (etcd rounds up to whole seconds, and to its minimum); the ID is decimal. */
  leaseGrant: (ttlMs: number, options: CallOptions) => Promise<Result<string>>
  /** One keep-alive. `lease-not-found` when it is gone. */
  leaseKeepAlive: (leaseId: string, options: CallOptions) => Promise<Result<void>>
  /** Ends the lease and deletes its keys. A lease that is gone already counts as done. */
  leaseRevoke: (leaseId: string, options: CallOptions) => Promise<Result<void>>
  /** A serializable read: one endpoint's local belief, which answers without a quorum and may be old. */
  readLocal: (reads: readonly ReadOp[], options: CallOptions) => Promise<Result<TxnReply>>
  /** Tells of changes under the prefix until the returned function is called. Nothing is decided from a change alone. */
  onChange: (listener: (change: Change) => void) => () => void
}

/** etcd's membership calls. */
export interface Membership {
  /**
   * A linearizable transaction and, after it on the same endpoint, the member list: what that endpoint has applied
   * then is current even on 3.4, where a member list is a local answer.
   */
  read: (txn: Txn, options: CallOptions) => Promise<Result<{ readonly reply: TxnReply; readonly list: MemberList }>>
  /** One endpoint's local belief, for when there is no quorum. */
  readLocal: (options: CallOptions) => Promise<Result<MemberList>>
  addLearner: (peerUrl: string, options: CallOptions) => Promise<Result<MemberId>>
  /** `leader`, where known and verified, is asked directly (etcd's forwarding hides most errors). */
  promote: (id: MemberId, leader: Member | undefined, options: CallOptions) => Promise<Result<void>>
  remove: (id: MemberId, options: CallOptions) => Promise<Result<void>>
}

/** A look at members, each with a deadline of its own: never slower than `timeoutMs`, never rejects. */
export interface Prober {
  probe: (members: readonly Member[], options: CallOptions) => Promise<ReadonlyMap<MemberId, Probe>>
}

/** What the core tells about itself; production writes it to the log. */
export interface Journal {
  info: (fields: Readonly<Record<string, unknown>>, message: string) => void
  warn: (fields: Readonly<Record<string, unknown>>, message: string) => void
}

export interface World {
  readonly clock: Clock
  readonly store: Store
  readonly membership: Membership
  readonly prober: Prober
  readonly journal: Journal
  /** Random in [0, 1): jitter, and IDs in the simulation. */
  readonly random: () => number
  /** A fresh unique ID. */
  readonly newId: () => string
}
