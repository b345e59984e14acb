/** Raft's arithmetic, and the questions about a view that rest on it. */
import { isPending, isStarted } from './types.ts'
import type { ClusterView, JoinRecord, MemberId, ObservedMember } from './types.ts'

/** How many of `voters` must agree. */
export function quorum (voters: number): number {
  return Math.floor(voters / 2) + 1
}

/** How many of `alive` voters may still be lost; negative when the quorum is gone. */
export function tolerance (voters: number, alive: number): number {
  return alive - quorum(voters)
}

export function voters (view: ClusterView): readonly ObservedMember[] {
  return view.members.filter(member => !member.isLearner)
}

export function aliveVoters (view: ClusterView): readonly ObservedMember[] {
  return voters(view).filter(member => member.alive)
}

/** Voters that are dead or have never started. */
export function missingVoters (view: ClusterView): readonly ObservedMember[] {
  return voters(view).filter(member => !member.alive || !isStarted(member))
}

/** Members that are not yet voters, in the order in which this replica first saw them. */
export function pendingMembers (view: ClusterView): readonly ObservedMember[] {
  return view.members.filter(isPending).sort((a, b) => b.seenForMs - a.seenForMs || (BigInt(a.id) < BigInt(b.id) ? -1 : 1))
}

export function recordsOf (view: ClusterView, id: MemberId): readonly JoinRecord[] {
  return [...view.records.values()].map(stored => stored.record).filter(record => record.memberId === id)
}

/** An eviction of this member has been recorded: it must never be promoted or resumed (I8). */
export function isEvicting (view: ClusterView, id: MemberId): boolean {
  return recordsOf(view, id).some(record => record.evictingAt !== undefined)
}

/** This member's data was lost: it must not be started again, and is to be evicted. */
export function isDataLost (view: ClusterView, id: MemberId): boolean {
  return recordsOf(view, id).some(record => record.dataLost === true)
}

/**
 * Why promoting this learner now would be wrong; undefined when it is right. etcd checks neither rule: it promotes an
 * in-sync learner that has just died, and never asks whether the voters are alive (seen on 3.4.23, 3.5.16, 3.5.30).
 */
export function whyNotPromote (view: ClusterView, learner: ObservedMember): string | undefined {
  if (!isStarted(learner)) return 'it has not started yet'
  if (!learner.alive) return 'it is not alive'
  if (isDataLost(view, learner.id)) return 'its data is lost'
  if (isEvicting(view, learner.id)) return 'its eviction is recorded'
  const all = voters(view).length
  const alive = aliveVoters(view).length
  const needed = quorum(all + 1)
  if (alive + 1 < needed) return `only ${alive} of ${all} voters are alive, and with one voter more ${needed} are needed`
  return undefined
}
