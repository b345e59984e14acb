/**
 * The words of the admission protocol as types: members as etcd tells them, what this replica has observed of
 * them, and what stands under Lockkeeper's own prefix. Nothing here does anything.
 */

declare const memberIdBrand: unique symbol

/** An etcd member ID: a uint64 as a decimal string, as on the wire. Never a JS number: 2^53 is too small for it. */
export type MemberId = string & { readonly [memberIdBrand]: never }

/** Marks a decimal string that came from etcd as a member ID. */
export function memberId (decimal: string): MemberId {
  return decimal as MemberId
}

/** The hexadecimal form that etcd's own tools show, used in the API and the logs. */
export function hexId (id: MemberId): string {
  return BigInt(id).toString(16)
}

/** Reads the hexadecimal form back; undefined when it is none. */
export function memberIdFromHex (hex: string): MemberId | undefined {
  if (!/^[0-9a-fA-F]{1,16}$/.test(hex)) return undefined
  return memberId(BigInt(`0x${hex}`).toString(10))
}

/** A member as MemberList tells it. `name` and `clientUrls` are empty until it has started and published itself. */
export interface Member {
  readonly id: MemberId
  readonly name: string
  readonly peerUrls: readonly string[]
  readonly clientUrls: readonly string[]
  readonly isLearner: boolean
}

/**
 * etcd's word for "has published itself". It stays true for ever: a dead member is still started.
 * etcd uses the name, OpenShift the client URLs; a member that has either has applied its own publication.
 */
export function isStarted (member: Member): boolean {
  return member.name !== '' || member.clientUrls.length > 0
}

/** A pending member is one that is not yet a voter: unstarted (learner or voter) or a learner. */
export function isPending (member: Member): boolean {
  return member.isLearner || !isStarted(member)
}

/** What a member's own Status says, when its `member_id` proves that it is that member's. */
export interface MemberStatus {
  readonly version: string
  readonly dbSizeBytes: number
  /** The leader that this member knows; undefined when it knows none. */
  readonly leader: MemberId | undefined
  readonly raftIndex: bigint
  readonly raftAppliedIndex: bigint
  readonly isLearner: boolean
  /** etcd's own complaints: alarms ("memberID:… alarm:NOSPACE") and "etcdserver: no leader". */
  readonly errors: readonly string[]
}

/**
 * healthy: own verified Status, and it has a leader. reachable: its peer port answers (or its Status does, without
 * a leader). unreachable: neither. unstarted: it has not published itself yet; `peerAnswers` tells whether somebody
 * listens at its peer URL.
 */
export type Health = 'healthy' | 'reachable' | 'unreachable' | 'unstarted'

/** One look at one member. */
export interface Probe {
  readonly health: Health
  /** Somebody answered for this member in this very probe: its own Status, or its peer port. */
  readonly answers: boolean
  readonly status: MemberStatus | undefined
}

/** A member, what the last look found, and what this replica has observed of it on its own monotonic clock. */
export interface ObservedMember extends Member {
  readonly health: Health
  /** Healthy or reachable within the last second. An unstarted member is alive when its peer port answers. */
  readonly alive: boolean
  /** For how long it has been alive without a break, as observed; 0 when it is not. Milliseconds. */
  readonly aliveForMs: number
  /** For how long it has not been alive, as observed; 0 when it is. Milliseconds. */
  readonly silentForMs: number
  /** For how long it has existed, as observed. Milliseconds. */
  readonly seenForMs: number
  /** For how long its applied index has neither grown nor equalled the leader's; 0 where that cannot be read. Milliseconds. */
  readonly stalledForMs: number
  readonly status: MemberStatus | undefined
}

export type Alarm = 'NOSPACE' | 'CORRUPT'

/** The value of the slot key: who is being let in, and which replica attends it. */
export interface SlotValue {
  readonly joinId: string
  readonly node: string
  readonly peerAddress: string
  /** Decimal; absent until MemberAdd has answered. */
  readonly memberId?: MemberId
  readonly replica: string
  /** RFC 3339, for people only. */
  readonly since: string
}

export interface SlotState {
  readonly value: SlotValue
  readonly createRevision: bigint
}

/** A joiner that waits. Age in the line is the key's create revision, never a clock. */
export interface LineEntry {
  readonly key: string
  readonly node: string
  readonly peerAddress: string
  readonly replica: string
  readonly createRevision: bigint
  readonly leaseId: string
}

export interface Pause {
  readonly who: string
  readonly why: string
  readonly since: string
}

/** One join, from admission to its end. Times are RFC 3339, for people; `tookMs` is measured on a monotonic clock. */
export interface JoinRecord {
  readonly id: string
  readonly node: string
  readonly peerAddress: string
  readonly memberId?: MemberId
  readonly tokenId?: string
  readonly replica: string
  /** request: through the API. adopted: somebody else added the member, or its record was lost. */
  readonly origin: 'request' | 'adopted'
  readonly admittedAt: string
  readonly addedAt?: string
  readonly startedAt?: string
  readonly promotedAt?: string
  /** The voter that this join replaces, recorded before it is removed. */
  readonly replaces?: MemberId
  /** The joiner said that this member's data is gone, or it was found so: it is to be evicted, never resumed. */
  readonly dataLost?: boolean
  /** Recorded before the removal: a member so marked is never promoted or resumed. */
  readonly evictingAt?: string
  readonly evictedAt?: string
  readonly why?: string
  /** How often the joiner asked again; a change is a sign of life for the attending replica. */
  readonly asked?: number
  /** From admission to voter, milliseconds. */
  readonly tookMs?: number
}

export interface StoredRecord {
  readonly record: JoinRecord
  readonly modRevision: bigint
}

/** A replica of the server, as it announces itself under a lease. */
export interface ReplicaInfo {
  readonly id: string
  readonly address: string
  readonly version: string
  readonly caFingerprint: string
}

/** One look at the whole: the shared truth that all verdicts and plans are taken from. */
export interface ClusterView {
  /** When the reading began, on this replica's monotonic clock. Milliseconds. */
  readonly takenAtMs: number
  /** True when there was no linearizable answer: members are one endpoint's local belief, the rest is the last known. */
  readonly stale: boolean
  /** etcd's cluster ID, decimal. */
  readonly clusterId: string
  readonly members: readonly ObservedMember[]
  readonly leader: MemberId | undefined
  readonly alarms: readonly Alarm[]
  readonly slot: SlotState | undefined
  /** Oldest first. */
  readonly line: readonly LineEntry[]
  readonly pause: Pause | undefined
  /** Records of joins, by join ID. */
  readonly records: ReadonlyMap<string, StoredRecord>
  readonly replicas: readonly ReplicaInfo[]
}

/** A join request after its syntax was checked. */
export interface JoinRequest {
  readonly node: string
  /** Canonical form: what comparisons and MemberAdd use. */
  readonly peerUrl: string
  /** Exactly as the joiner sent it: what its own entry in `initialCluster` says. */
  readonly peerAddress: string
  /** The joiner's data directory is gone although it had started: it needs a new membership. */
  readonly dataLost: boolean
  readonly tokenId?: string
}

/** The numbers that decide. All milliseconds but `maxMembers` and `maxLine`. */
export interface Policy {
  readonly slotTtlMs: number
  readonly startTimeoutMs: number
  readonly stallTimeoutMs: number
  readonly catchUpTimeoutMs: number
  readonly replaceAfterMs: number
  readonly maxMembers: number
  readonly maxLine: number
  readonly lineTtlMs: number
}

/** Why a joiner has to wait: every one of them is a 503 with Retry-After. */
export type WaitReason =
  | 'SlotTaken' | 'NotYourTurn' | 'Settling' | 'MemberDown' | 'NoQuorum' | 'Alarm' | 'EtcdUnreachable' | 'Paused' | 'LineFull'

/** Why a joiner is refused: 409, and asking again does not help. */
export type RefuseReason = 'AlreadyMember' | 'PeerURLInUse' | 'NameInUse' | 'ClusterFull'

/** The answer to a join request, before anything is done about it (design 5.2). */
export type Verdict =
  | { readonly kind: 'admit' }
  | { readonly kind: 'replace'; readonly remove: MemberId }
  | { readonly kind: 'resume'; readonly member: MemberId }
  | { readonly kind: 'wait'; readonly reason: WaitReason; readonly detail: string; readonly dataLostMember?: MemberId }
  | { readonly kind: 'refuse'; readonly reason: RefuseReason; readonly detail: string }
