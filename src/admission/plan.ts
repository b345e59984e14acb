/**
 * What the attendant does next for the member it attends: a pure function of what is known (design 5.4).
 */
import { isEvicting, isDataLost, whyNotPromote } from './quorum.ts'
import { hexId, isPending, isStarted } from './types.ts'
import type { ClusterView, MemberId, ObservedMember, Policy } from './types.ts'

/** A joiner that only asks, and never starts, holds the slot by that for no longer than this many start timeouts. */
const ASKING_COUNTS_FOR = 3

export interface Attended {
  readonly memberId: MemberId
  /** For how long this replica has attended it. Milliseconds. */
  readonly attendedForMs: number
  /** How long ago the joiner was last heard asking again, through any replica; undefined when it never was. Milliseconds. */
  readonly askedAgoMs: number | undefined
}

export type Step =
  | { readonly kind: 'wait'; readonly why: string }
  | { readonly kind: 'promote'; readonly member: ObservedMember }
  | { readonly kind: 'evict'; readonly member: ObservedMember; readonly why: string }
  /** The join is over: the member is a voter, or gone. */
  | { readonly kind: 'finish'; readonly outcome: 'voter' | 'gone' }

export function planFor (view: ClusterView, attended: Attended, policy: Policy): Step {
  if (view.stale) return { kind: 'wait', why: 'etcd has no quorum' }
  const member = view.members.find(candidate => candidate.id === attended.memberId)
  if (member === undefined) return { kind: 'finish', outcome: 'gone' }
  if (!isPending(member)) return { kind: 'finish', outcome: 'voter' }
  // Never removed automatically, and there is nothing to promote: its own start ends it, or an administrator.
  if (!member.isLearner) return { kind: 'wait', why: `voter ${hexId(member.id)} has not started` }
  if (isEvicting(view, member.id)) return { kind: 'evict', member, why: 'its eviction was begun' }
  if (isDataLost(view, member.id)) {
    return member.alive ? { kind: 'wait', why: 'its data is lost, but its process still answers' } : { kind: 'evict', member, why: 'its data is lost' }
  }
  const overdue = isStarted(member) ? startedOverdue(member, policy) : unstartedOverdue(member, attended, policy)
  if (overdue !== undefined) return { kind: 'evict', member, why: overdue }
  const obstacle = whyNotPromote(view, member)
  return obstacle === undefined ? { kind: 'promote', member } : { kind: 'wait', why: obstacle }
}

function unstartedOverdue (member: ObservedMember, attended: Attended, policy: Policy): string | undefined {
  const signs = [attended.attendedForMs, member.alive ? 0 : member.silentForMs]
  if (attended.askedAgoMs !== undefined && attended.attendedForMs < ASKING_COUNTS_FOR * policy.startTimeoutMs) signs.push(attended.askedAgoMs)
  const sinceSign = Math.min(...signs)
  if (sinceSign >= policy.startTimeoutMs) return `it never started, and gave no sign of life for ${seconds(sinceSign)}`
  if (attended.attendedForMs >= policy.catchUpTimeoutMs) return `it answers at its peer URL, but has not started within ${seconds(attended.attendedForMs)}`
  return undefined
}

function startedOverdue (member: ObservedMember, policy: Policy): string | undefined {
  if (!member.alive) {
    return member.silentForMs >= policy.startTimeoutMs ? `it started, but has not been alive for ${seconds(member.silentForMs)}` : undefined
  }
  if (member.status !== undefined && member.stalledForMs >= policy.stallTimeoutMs) return `it has made no progress for ${seconds(member.stalledForMs)}`
  if (member.status === undefined && member.seenForMs >= policy.catchUpTimeoutMs) return `it has not caught up within ${seconds(member.seenForMs)}`
  return undefined
}

function seconds (ms: number): string {
  return `${Math.round(ms / 1000)} s`
}
