/**
 * The desk that join requests come to: holds those that must wait, and lets in the one whose turn it is.
 */
import { admit } from './admit.ts'
import type { Attendant } from './attendant.ts'
import type { Gatekeeper, JoinAnswer, JoinOptions, Standing } from './answers.ts'
import { retryAfterSeconds } from './estimate.ts'
import { initialCluster } from './initial-cluster.ts'
import type { Line } from './line.ts'
import { checkAgainstCluster } from './peer-url.ts'
import type { World } from './ports.ts'
import { missingVoters, pendingMembers } from './quorum.ts'
import { changeRecord, recordOf } from './records.ts'
import { hexId } from './types.ts'
import type { ClusterView, JoinRecord, JoinRequest, MemberId, Policy, Verdict, WaitReason } from './types.ts'
import { hasPeerUrl, verdictOn } from './verdict.ts'
import type { ViewKeeper } from './view.ts'

/** A view may be this old to judge by; whatever is done is judged again on a fresh one. */
const VIEW_MAX_AGE_MS = 1_000
/** A held request looks again after this time even when nothing seems to have happened. */
const LOOK_AGAIN_MS = 1_000
/** An answer is given at the latest this long after holding has ended, even when etcd answers nothing: a k0s client waits 10 s in all. */
const ANSWER_GRACE_MS = 1_000
/** What a joiner is told while this replica shuts down: another one, or the next start, is soon there. */
const DRAINING_RETRY_S = 1

export interface Desk {
  readonly world: World
  readonly views: ViewKeeper
  readonly line: Line
  readonly attendant: Attendant
  readonly policy: Policy
  readonly replica: string
}

/** One request while it is being dealt with. */
export interface Visit {
  readonly request: JoinRequest
  readonly options: JoinOptions
  /** When holding ends, on the world's clock. */
  readonly deadlineMs: number
  /** Aborts when this replica shuts down. */
  readonly draining: AbortSignal
  judge: (view: ClusterView, ownJoinId?: string) => Verdict
  waiting: (view: ClusterView | undefined, reason: WaitReason, detail: string) => JoinAnswer
  member: (view: ClusterView, id: MemberId) => JoinAnswer | undefined
  refuse: (view: ClusterView, reason: (JoinAnswer & { kind: 'refuse' })['reason'], detail: string) => JoinAnswer
}

export function createGatekeeper (desk: Desk): Gatekeeper {
  const { world, views, line, attendant, policy } = desk
  const { clock } = world
  const draining = new AbortController()
  /** One admission at a time through this replica: the others would only lose the race for the slot. */
  let admitting = false

  function judge (view: ClusterView, request: JoinRequest, ownJoinId?: string): Verdict {
    return verdictOn(view, request, { policy, olderPresent: line.olderPresent(request), ownJoinId })
  }

  function standingOf (view: ClusterView | undefined, request: JoinRequest): Standing {
    if (view === undefined) return { pending: undefined, line: { position: undefined, length: 0 }, members: [] }
    const [pending] = pendingMembers(view)
    const record = pending === undefined ? undefined : recordOf(view, pending.id)?.record
    const slot = view.slot?.value
    return {
      pending: pending !== undefined
        ? { node: pending.name !== '' ? pending.name : record?.node ?? hexId(pending.id), peerAddress: pending.peerUrls[0] ?? '', memberId: pending.id }
        : slot === undefined ? undefined : { node: slot.node, peerAddress: slot.peerAddress, memberId: slot.memberId },
      line: { position: line.position(view, request), length: view.line.length },
      members: missingVoters(view).map(member => hexId(member.id))
    }
  }

  function visit (request: JoinRequest, options: JoinOptions): Visit {
    return {
      request,
      options,
      deadlineMs: clock.now() + options.holdMs,
      draining: draining.signal,
      judge: (view, ownJoinId) => judge(view, request, ownJoinId),
      waiting (view, reason, detail) {
        const retryAfterS = draining.signal.aborted ? DRAINING_RETRY_S : retryAfterSeconds(view, view === undefined ? undefined : line.position(view, request))
        return { kind: 'wait', reason, detail, retryAfterS, standing: standingOf(view, request) }
      },
      refuse: (view, reason, detail) => ({ kind: 'refuse', reason, detail, standing: standingOf(view, request) }),
      member (view, id) {
        const member = view.members.find(candidate => candidate.id === id)
        if (member === undefined) return undefined
        return {
          kind: 'member',
          memberId: id,
          clusterId: view.clusterId,
          role: member.isLearner ? 'learner' : 'voter',
          initialCluster: initialCluster(view.members, id, request.node, request.peerAddress)
        }
      }
    }
  }

  /** One look: the answer as it stands now. A `wait` may be held and looked at again. */
  async function look (at: Visit, view: ClusterView): Promise<JoinAnswer> {
    const { request } = at
    if (!view.members.some(member => hasPeerUrl(member, request.peerUrl))) {
      const unfit = checkAgainstCluster(request.peerUrl, view.members.flatMap(member => member.peerUrls))
      if (unfit !== undefined) return at.refuse(view, 'BadPeerAddress', unfit)
    }
    const verdict = at.judge(view)
    switch (verdict.kind) {
      case 'refuse':
        line.leave(view, request)
        return at.refuse(view, verdict.reason, verdict.detail)
      case 'resume': return resume(at)
      case 'wait':
        if (verdict.dataLostMember !== undefined) await noteDataLost(view, verdict.dataLostMember, request)
        return queue(at, view, verdict.reason, verdict.detail)
      case 'admit':
      case 'replace': return tryAdmission(at, view)
    }
  }

  /** Answers with the membership there is already, from a list read for this very answer. */
  async function resume (at: Visit): Promise<JoinAnswer> {
    const view = await views.fresh()
    if (view === undefined) return unreachable(at)
    const verdict = at.judge(view)
    const answer = verdict.kind === 'resume' ? at.member(view, verdict.member) : undefined
    if (verdict.kind !== 'resume' || answer === undefined) return at.waiting(view, 'SlotTaken', 'the membership changed a moment ago')
    attendant.asked(verdict.member)
    line.leave(view, at.request)
    return answer
  }

  async function tryAdmission (at: Visit, view: ClusterView): Promise<JoinAnswer> {
    if (admitting) return queue(at, view, 'SlotTaken', 'another controller is being let in')
    admitting = true
    try {
      const delayMs = line.rankDelayMs(view, at.request)
      if (delayMs > 0) {
        await clock.sleep(delayMs, AbortSignal.any([at.options.hangUp, draining.signal]))
        if (at.options.hangUp.aborted) return { kind: 'gone' }
        const now = await views.fresh()
        if (now === undefined) return unreachable(at)
        const verdict = at.judge(now)
        if (verdict.kind === 'wait') return await queue(at, now, verdict.reason, verdict.detail)
        if (verdict.kind !== 'admit' && verdict.kind !== 'replace') return at.waiting(now, 'SlotTaken', 'the membership changed a moment ago')
      }
      const answer = await admit(desk, at)
      if (answer.kind === 'wait') return await queue(at, views.latest() ?? view, answer.reason, answer.detail)
      if (answer.kind !== 'gone') line.leave(views.latest(), at.request)
      return answer
    } finally {
      admitting = false
      // The slot is free again, or filled: whoever else waits here looks now and not at the next round.
      attendant.wake()
    }
  }

  /** Gives the joiner its place in the line, and the answer that says so. */
  async function queue (at: Visit, view: ClusterView, reason: WaitReason, detail: string): Promise<JoinAnswer> {
    if (!view.stale) {
      const entered = await line.enter(view, at.request)
      if (entered.kind === 'full') return at.waiting(view, 'LineFull', `${view.line.length} joiners wait already, and no more are kept in the line`)
    }
    return at.waiting(views.latest() ?? view, reason, detail)
  }

  async function noteDataLost (view: ClusterView, member: MemberId, request: JoinRequest): Promise<void> {
    const stored = recordOf(view, member)
    if (stored?.record.dataLost === true) return
    const id = stored?.record.id ?? world.newId()
    const fresh: JoinRecord = { id, node: request.node, peerAddress: request.peerAddress, memberId: member, replica: desk.replica, origin: 'adopted', admittedAt: clock.date() }
    await changeRecord(world, id, record => ({ ...record ?? fresh, dataLost: true }))
    attendant.wake()
  }

  function unreachable (at: Visit): JoinAnswer {
    return at.waiting(undefined, 'EtcdUnreachable', `etcd cannot be reached: ${views.trouble() ?? 'no answer yet'}`)
  }

  /** Waits for a new view, or for whatever else ends the holding. */
  async function somethingNew (at: Visit): Promise<void> {
    const seen = new AbortController()
    const off = views.onView(() => seen.abort())
    await clock.sleep(Math.max(1, Math.min(LOOK_AGAIN_MS, at.deadlineMs - clock.now())), AbortSignal.any([seen.signal, at.options.hangUp, draining.signal]))
    off()
  }

  async function holdAndLook (at: Visit, note: (answer: JoinAnswer) => void): Promise<JoinAnswer> {
    for (;;) {
      const view = await views.current(VIEW_MAX_AGE_MS)
      if (at.options.hangUp.aborted) return { kind: 'gone' }
      const answer = view === undefined ? unreachable(at) : await look(at, view)
      if (answer.kind !== 'wait' || answer.reason === 'LineFull') return answer
      note(answer)
      if (draining.signal.aborted) return { ...answer, retryAfterS: DRAINING_RETRY_S }
      if (clock.now() >= at.deadlineMs) return answer
      await somethingNew(at)
    }
  }

  return {
    async join (request, options) {
      // Giving up for want of time is to the admission what a hang-up is: nothing is added any more that was not sent yet.
      const gaveUp = new AbortController()
      const answered = new AbortController()
      const at = visit(request, { ...options, hangUp: AbortSignal.any([options.hangUp, gaveUp.signal]) })
      let last: JoinAnswer = unreachable(at)
      const letGo = line.hold(request)
      const inTime = holdAndLook(at, answer => { last = answer }).finally(() => {
        letGo()
        answered.abort()
      })
      const late = clock.sleep(options.holdMs + ANSWER_GRACE_MS, AbortSignal.any([answered.signal, options.hangUp])).then(async () => {
        if (answered.signal.aborted) return inTime
        gaveUp.abort()
        return options.hangUp.aborted ? { kind: 'gone' as const } : last
      })
      return Promise.race([inTime, late])
    },
    async dryRun (request) {
      const view = await views.current(VIEW_MAX_AGE_MS)
      const standing = standingOf(view, request)
      if (view === undefined) {
        return { verdict: { kind: 'wait', reason: 'EtcdUnreachable', detail: `etcd cannot be reached: ${views.trouble() ?? 'no answer yet'}` }, retryAfterS: retryAfterSeconds(undefined, undefined), standing }
      }
      return { verdict: judge(view, request), retryAfterS: retryAfterSeconds(view, line.position(view, request)), standing }
    },
    drain () {
      draining.abort()
    }
  }
}
