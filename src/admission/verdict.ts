/**
 * The verdict on a join request: a pure function of what is known. The rows are numbered as in the design's table
 * (5.2); the first that matches wins.
 */
import { comparablePeerUrl } from './peer-url.ts'
import { aliveVoters, isDataLost, isEvicting, missingVoters, pendingMembers, quorum, voters } from './quorum.ts'
import { hexId, isStarted } from './types.ts'
import type { ClusterView, JoinRequest, ObservedMember, Policy, Verdict, WaitReason } from './types.ts'

export interface VerdictContext {
  readonly policy: Policy
  /** Somebody older in the line is known to be present (its request is held by this replica). */
  readonly olderPresent: boolean
  /** The join that this very request holds the slot for; undefined while it does not. */
  readonly ownJoinId: string | undefined
}

/** Is it this member's peer URL, however either is spelt? */
export function hasPeerUrl (member: { readonly peerUrls: readonly string[] }, peerUrl: string): boolean {
  return member.peerUrls.some(url => comparablePeerUrl(url) === peerUrl)
}

export function verdictOn (view: ClusterView, request: JoinRequest, context: VerdictContext): Verdict {
  const { policy } = context
  const byUrl = view.members.find(member => hasPeerUrl(member, request.peerUrl))
  const byName = view.members.find(member => isStarted(member) && member.name === request.node)

  // 1: it was added and never started: the same membership, however often it asks. A voter is resumed in any case: its start
  // may be the only way back to quorum, and nobody removes it automatically.
  if (byUrl !== undefined && !isStarted(byUrl) && (!byUrl.isLearner || (!view.stale && !request.dataLost && !isEvicting(view, byUrl.id) && !isDataLost(view, byUrl.id)))) {
    return { kind: 'resume', member: byUrl.id }
  }
  const own = byUrl !== undefined && isStarted(byUrl) && byUrl.name === request.node ? byUrl : undefined
  // 2: started and living, but not a voter yet.
  if (own?.isLearner === true && own.alive && !request.dataLost && !view.stale && !isEvicting(view, own.id) && !isDataLost(view, own.id)) {
    return { kind: 'resume', member: own.id }
  }
  // 3
  if (byUrl !== undefined && isStarted(byUrl) && byUrl.name !== request.node) {
    return { kind: 'refuse', reason: 'PeerURLInUse', detail: `${request.peerUrl} belongs to member ${byUrl.name} (${hexId(byUrl.id)}); if that member is gone for good, free it with: ${removalCommand(byUrl)}` }
  }
  if (byName !== undefined && byName !== own) {
    return { kind: 'refuse', reason: 'NameInUse', detail: `the name ${request.node} belongs to member ${hexId(byName.id)} at ${byName.peerUrls.join(', ')}; if that member is gone for good, free it with: ${removalCommand(byName)}` }
  }
  // 4
  if (own !== undefined && !own.isLearner && own.alive && !request.dataLost) {
    return { kind: 'refuse', reason: 'AlreadyMember', detail: `${request.node} is already a living voter (${hexId(own.id)}); it needs no join` }
  }
  const obstacle = clusterObstacle(view)
  if (obstacle !== undefined) return obstacle
  // 8
  if (byUrl?.isLearner === true && !byUrl.alive) {
    const gone = isStarted(byUrl) && byUrl.silentForMs >= policy.replaceAfterMs
    if (request.dataLost || gone) {
      return {
        kind: 'wait',
        reason: 'SlotTaken',
        detail: `the former membership of ${request.node} (${hexId(byUrl.id)}) is being removed, since its data is lost`,
        dataLostMember: byUrl.id
      }
    }
  }
  // 9
  const [pending] = pendingMembers(view)
  if (pending !== undefined) {
    return wait('SlotTaken', `${describePending(pending)} is joining; one controller is let in at a time`)
  }
  if (view.slot !== undefined && view.slot.value.joinId !== context.ownJoinId) {
    return wait('SlotTaken', `${view.slot.value.node} is being let in; one controller is let in at a time`)
  }
  return own === undefined ? verdictOnNew(view, context) : verdictOnReplacement(view, own, request, policy)
}

/** Rows 5 to 7: what keeps everybody out. */
function clusterObstacle (view: ClusterView): Verdict | undefined {
  // A CORRUPT alarm refuses even reads, so that it looks like a lost quorum; say what it is.
  if (view.alarms.includes('CORRUPT')) return wait('Alarm', 'etcd has raised a CORRUPT alarm: nobody is let in until it is cleared')
  if (view.stale) {
    const missing = missingVoters(view).map(describeMissing)
    return wait('NoQuorum', `etcd has no quorum${missing.length > 0 ? `; not available: ${missing.join(', ')}` : ''}`)
  }
  if (view.pause !== undefined) return wait('Paused', `admission is paused by ${view.pause.who}: ${view.pause.why}`)
  if (view.alarms.length > 0) return wait('Alarm', `etcd has raised a ${view.alarms.join(' and ')} alarm: nobody is let in until it is cleared`)
  return undefined
}

/** Row 10: a voter asks to join again. Its membership is replaced only when it is surely gone and the others can spare it. */
function verdictOnReplacement (view: ClusterView, own: ObservedMember, request: JoinRequest, policy: Policy): Verdict {
  const others = voters(view).filter(member => member.id !== own.id)
  const othersAlive = others.filter(member => member.alive).length
  const goneFor = request.dataLost ? 0 : policy.replaceAfterMs
  if (own.alive || own.silentForMs < goneFor) {
    return wait('MemberDown', `${own.name} (${hexId(own.id)}) asks to join again, but its former process ${own.alive ? 'still answers' : 'answered a moment ago'}`)
  }
  if (others.length === 0 || othersAlive < quorum(others.length)) {
    return wait('MemberDown', `${own.name} (${hexId(own.id)}) cannot be replaced: only ${othersAlive} of the other ${others.length} voters are alive`)
  }
  return { kind: 'replace', remove: own.id }
}

/** Rows 11 to 14: a newcomer, with nobody else in the way. */
function verdictOnNew (view: ClusterView, { policy, olderPresent }: VerdictContext): Verdict {
  if (view.members.length >= policy.maxMembers) {
    return { kind: 'refuse', reason: 'ClusterFull', detail: `the cluster has ${view.members.length} members, and no more than ${policy.maxMembers} are let in` }
  }
  const all = voters(view).length
  const alive = aliveVoters(view).length
  if (all > 1 && alive < quorum(all + 1)) {
    return wait('MemberDown', `${alive} of ${all} voters are alive, and one more voter needs ${quorum(all + 1)}; not available: ${missingVoters(view).map(describeMissing).join(', ')}`)
  }
  if (olderPresent) return wait('NotYourTurn', 'an older joiner is in the line')
  return { kind: 'admit' }
}

function wait (reason: WaitReason, detail: string): Verdict {
  return { kind: 'wait', reason, detail }
}

function removalCommand (member: ObservedMember): string {
  return `etcdctl member remove ${hexId(member.id)}`
}

function describePending (member: ObservedMember): string {
  return isStarted(member) ? `learner ${member.name} (${hexId(member.id)})` : `member ${hexId(member.id)} at ${member.peerUrls.join(', ')}, not started yet,`
}

function describeMissing (member: ObservedMember): string {
  return isStarted(member) ? `${member.name} (${hexId(member.id)})` : `${hexId(member.id)} at ${member.peerUrls.join(', ')} (never started)`
}
