/**
 * What this replica has seen of each member over time, on its own monotonic clock. Pure: a fold over probes.
 * Ages that decide something come from here and nowhere else; another replica starts them anew.
 */
import { isStarted } from './types.ts'
import type { Health, Member, MemberId, MemberStatus, ObservedMember, Probe } from './types.ts'

/** A member that answered within this time counts as alive, so that one lost probe is no death. */
export const ALIVE_WINDOW_MS = 1_000

export interface Observation {
  readonly firstSeenMs: number
  /** When it was last looked at. */
  readonly probedAtMs: number
  /** When it last answered. */
  readonly answeredAtMs: number | undefined
  /** Since when it has answered without a break. */
  readonly aliveSinceMs: number | undefined
  /** The first look that it did not answer, of those since it last did. */
  readonly silentSinceMs: number | undefined
  readonly health: Health
  readonly status: MemberStatus | undefined
  /** When its applied index last grew, or was the leader's; or it was seen alive where the index cannot be read. */
  readonly progressAtMs: number
}

export type Observations = ReadonlyMap<MemberId, Observation>

/** Adds one round of probes. Members that were not probed this time keep what is known; members that are gone are forgotten. */
export function observe (before: Observations, members: readonly Member[], probes: ReadonlyMap<MemberId, Probe>, nowMs: number): Observations {
  const after = new Map<MemberId, Observation>()
  const leaderIndex = leadersIndex(members, probes, before)
  for (const member of members) {
    const old = before.get(member.id)
    const probe = probes.get(member.id)
    if (probe === undefined) {
      after.set(member.id, old ?? unseen(nowMs))
      continue
    }
    after.set(member.id, {
      firstSeenMs: old?.firstSeenMs ?? nowMs,
      probedAtMs: nowMs,
      answeredAtMs: probe.answers ? nowMs : old?.answeredAtMs,
      aliveSinceMs: probe.answers ? (old?.silentSinceMs === undefined ? old?.aliveSinceMs ?? nowMs : nowMs) : old?.aliveSinceMs,
      silentSinceMs: probe.answers ? undefined : old?.silentSinceMs ?? nowMs,
      health: probe.health,
      status: probe.status,
      progressAtMs: hasProgress(old, probe, leaderIndex) ? nowMs : old?.progressAtMs ?? nowMs
    })
  }
  return after
}

/** The members as a view shows them: each with what is known of it at `nowMs`. */
export function describe (members: readonly Member[], observations: Observations, nowMs: number): ObservedMember[] {
  return members.map(member => {
    const seen = observations.get(member.id) ?? unseen(nowMs)
    const alive = isRecent(seen.answeredAtMs, nowMs)
    return {
      ...member,
      health: isStarted(member) ? (seen.health === 'unstarted' ? 'unreachable' : seen.health) : 'unstarted',
      alive,
      aliveForMs: alive && seen.aliveSinceMs !== undefined ? nowMs - seen.aliveSinceMs : 0,
      silentForMs: alive ? 0 : nowMs - (seen.silentSinceMs ?? nowMs),
      seenForMs: nowMs - seen.firstSeenMs,
      stalledForMs: nowMs - seen.progressAtMs,
      status: seen.status
    }
  })
}

function unseen (nowMs: number): Observation {
  return {
    firstSeenMs: nowMs,
    probedAtMs: Number.NEGATIVE_INFINITY,
    answeredAtMs: undefined,
    aliveSinceMs: undefined,
    silentSinceMs: undefined,
    health: 'unreachable',
    status: undefined,
    progressAtMs: nowMs
  }
}

function isRecent (answeredAtMs: number | undefined, nowMs: number): boolean {
  return answeredAtMs !== undefined && nowMs - answeredAtMs <= ALIVE_WINDOW_MS
}

function hasProgress (old: Observation | undefined, probe: Probe, leaderIndex: bigint | undefined): boolean {
  if (!probe.answers) return false
  if (probe.status === undefined) return true
  const applied = probe.status.raftAppliedIndex
  if (leaderIndex !== undefined && applied >= leaderIndex) return true
  return old?.status === undefined || applied > old.status.raftAppliedIndex
}

/** The leader's raft index, as its own Status last told it. */
function leadersIndex (members: readonly Member[], probes: ReadonlyMap<MemberId, Probe>, before: Observations): bigint | undefined {
  for (const member of members) {
    const status = probes.get(member.id)?.status ?? before.get(member.id)?.status
    if (status?.leader === member.id) return status.raftIndex
  }
  return undefined
}
