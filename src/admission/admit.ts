/**
 * Letting one joiner in (design 5.3): take the slot, look again with the slot in hand, add a learner, write it down,
 * answer. Every way out of here either hands the slot to the attendant or gives it back.
 */
import type { JoinAnswer } from './answers.ts'
import type { Desk, Visit } from './gatekeeper.ts'
import { hasPeerUrl } from './verdict.ts'
import { isOutcomeUnknown } from './ports.ts'
import { missingVoters } from './quorum.ts'
import { changeRecord } from './records.ts'
import { takeSlot } from './slot.ts'
import type { SlotSession } from './slot.ts'
import { hexId, isPending, isStarted } from './types.ts'
import type { ClusterView, JoinRecord, MemberId, Verdict } from './types.ts'

/** How often a MemberAdd that etcd refuses as "unhealthy cluster" is tried again: its rule is on time alone. */
const SETTLING_RETRY_MS = 100
/** etcd has no time-out of its own for a change of membership; it hangs while another one is unapplied. */
const ADD_TIMEOUT_MS = 3_000
const REMOVE_TIMEOUT_MS = 3_000
/** What a deadline keeps below the remaining lease. */
const LEASE_MARGIN_MS = 500
/**
 * A member ID is a hash of peer URL and wall-clock seconds (etcd 3.4 to 3.7): added again within the second of its
 * removal it gets the ID that has just been removed for ever, and MemberAdd answers "member not found".
 */
const NEXT_SECOND_MS = 1_100
/** A view at most this old serves between two tries of MemberAdd. */
const VIEW_MAX_AGE_MS = 1_000
/** How long an answer waits for the slot to be given back. */
const RELEASE_WAIT_MS = 500
/** How often the member list is read for the answer before the joiner is told to ask again. */
const ANSWER_TRIES = 3

/** What one step of the way says: go on with a value, or stop with an answer. */
type Next<T> = { readonly go: T } | { readonly stop: JoinAnswer }

export async function admit (desk: Desk, at: Visit): Promise<JoinAnswer> {
  const { world, views, policy, replica } = desk
  const { request, options } = at
  const joinId = world.newId()
  const admittedAtMs = world.clock.now()
  const taken = await takeSlot(world, { joinId, node: request.node, peerAddress: request.peerAddress, replica, since: world.clock.date() }, policy.slotTtlMs)
  if (!taken.ok) {
    const view = await views.fresh()
    return view === undefined
      ? at.waiting(view, 'EtcdUnreachable', `etcd cannot be reached: ${taken.failure.message}`)
      : at.waiting(view, taken.failure.kind === 'no-space' ? 'Alarm' : view.stale ? 'NoQuorum' : 'SlotTaken', `the slot could not be taken: ${taken.failure.message}`)
  }
  if (taken.value === undefined) return at.waiting(await views.fresh(), 'SlotTaken', 'another controller was faster')
  const session = taken.value
  let handedOver = false
  try {
    const record: JoinRecord = {
      id: joinId,
      node: request.node,
      peerAddress: request.peerAddress,
      ...(request.tokenId === undefined ? {} : { tokenId: request.tokenId }),
      replica,
      origin: 'request',
      admittedAt: session.value.since
    }
    const ready = await prepare(desk, at, session, record)
    if ('stop' in ready) return ready.stop
    const added = await add(desk, at, session, ready.go)
    if ('stop' in added) return added.stop
    handedOver = true
    desk.attendant.attend({ session, joinId, memberId: added.go, admittedAtMs })
    world.journal.info({ join: joinId, node: request.node, member: hexId(added.go) }, 'admitted')
    // From here on the member is there, whether the client still listens or not. The record only helps others to know
    // whose it is: should it fail, they adopt the member from the list.
    await changeRecord(world, joinId, before => ({ ...before ?? record, memberId: added.go, addedAt: world.clock.date() }), [session.guard], [session.update({ ...session.value, memberId: added.go })])
    return await answer(desk, at, added.go)
  } finally {
    // The slot is given back before the answer, but a client is not kept waiting for an etcd that does not answer.
    if (!handedOver) await Promise.race([session.release(), world.clock.sleep(RELEASE_WAIT_MS)])
    if (options.hangUp.aborted && !handedOver) world.journal.info({ join: joinId, node: request.node }, 'the client hung up before anything was added')
  }
}

/** Judges again with the slot in hand, counts the use of the token, and removes the dead member that is to be replaced. */
async function prepare (desk: Desk, at: Visit, session: SlotSession, record: JoinRecord): Promise<Next<ClusterView>> {
  const view = await desk.views.fresh()
  if (view === undefined) return { stop: at.waiting(view, 'EtcdUnreachable', 'etcd stopped answering') }
  const verdict = at.judge(view, session.value.joinId)
  if (verdict.kind !== 'admit' && verdict.kind !== 'replace') return { stop: otherwise(at, view, verdict) }
  if (at.options.hangUp.aborted) return { stop: { kind: 'gone' } }
  const redeemed = await at.options.redeem?.()
  if (redeemed?.kind === 'used-up') return { stop: at.refuse(view, 'TokenUsedUp', 'this token has been used for as many members as it allows') }
  if (redeemed?.kind === 'unavailable') return { stop: at.refuse(view, 'TokenStoreUnavailable', redeemed.detail) }
  return verdict.kind === 'replace' ? replace(desk, at, session, record, view, verdict.remove) : { go: view }
}

/** The intent first, then the removal; then wait until it is gone and its ID cannot come back. */
async function replace (desk: Desk, at: Visit, session: SlotSession, record: JoinRecord, view: ClusterView, dead: MemberId): Promise<Next<ClusterView>> {
  const { world, views } = desk
  const written = await changeRecord(world, record.id, before => ({ ...before ?? record, replaces: dead }), [session.guard])
  if (!written.ok || !session.live()) return { stop: at.waiting(view, 'SlotTaken', 'the intent to replace the former member could not be recorded') }
  world.journal.warn({ join: record.id, node: record.node, member: hexId(dead) }, 'removing a dead member so that it can be replaced')
  const removed = await world.membership.remove(dead, { timeoutMs: callTimeout(session, REMOVE_TIMEOUT_MS) })
  for (;;) {
    const now = await views.fresh()
    if (now === undefined || now.stale || !session.live()) return { stop: at.waiting(now, now === undefined ? 'EtcdUnreachable' : 'NoQuorum', 'the former member is being removed') }
    if (!now.members.some(member => member.id === dead)) break
    if (!removed.ok && !isOutcomeUnknown(removed.failure) && removed.failure.kind !== 'member-not-found') {
      return { stop: at.waiting(now, 'MemberDown', `etcd does not let the former member ${hexId(dead)} be removed: ${removed.failure.message}`) }
    }
    if (world.clock.now() >= at.deadlineMs || at.draining.aborted) return { stop: at.waiting(now, 'MemberDown', 'the removal of the former member is not confirmed yet') }
    await world.clock.sleep(SETTLING_RETRY_MS, session.signal)
  }
  await world.clock.sleep(NEXT_SECOND_MS, session.signal)
  const after = await views.fresh()
  if (after === undefined) return { stop: at.waiting(after, 'EtcdUnreachable', 'etcd stopped answering') }
  const verdict = at.judge(after, session.value.joinId)
  return verdict.kind === 'admit' ? { go: after } : { stop: otherwise(at, after, verdict) }
}

/** Adds the learner. Tries again only what etcd has surely refused, or what the member list shows not to have been done. */
async function add (desk: Desk, at: Visit, session: SlotSession, judged: ClusterView): Promise<Next<MemberId>> {
  const { world, views } = desk
  let view = judged
  for (;;) {
    if (at.options.hangUp.aborted) return { stop: { kind: 'gone' } }
    if (at.draining.aborted) return { stop: at.waiting(view, 'Settling', 'this server is shutting down') }
    const timeoutMs = callTimeout(session, ADD_TIMEOUT_MS)
    if (timeoutMs <= 0) return { stop: at.waiting(view, 'SlotTaken', 'the slot was lost') }
    const added = await world.membership.addLearner(at.request.peerUrl, { timeoutMs })
    if (added.ok) return { go: added.value }
    const { kind, message } = added.failure
    if (kind === 'invalid') return { stop: at.refuse(view, 'BadPeerAddress', `etcd does not take ${at.request.peerUrl}: ${message}`) }
    if (kind === 'auth') return { stop: at.waiting(view, 'EtcdUnreachable', `etcd does not let this server add members: ${message}`) }
    const settling = kind === 'unhealthy' || kind === 'not-enough-started' || kind === 'overloaded'
    // Everything else is resolved by what the member list says now: our own lost reply, somebody else's member, or nothing.
    const now = settling ? await views.current(VIEW_MAX_AGE_MS) : await views.fresh()
    if (now === undefined) return { stop: at.waiting(now, 'EtcdUnreachable', `etcd stopped answering: ${message}`) }
    view = now
    const ours = settling ? undefined : now.members.find(member => isPending(member) && !isStarted(member) && member.isLearner && hasPeerUrl(member, at.request.peerUrl))
    if (ours !== undefined) return at.judge(now, session.value.joinId).kind === 'resume' ? { go: ours.id } : { stop: at.waiting(now, 'SlotTaken', 'the membership changed a moment ago') }
    const verdict = at.judge(now, session.value.joinId)
    if (verdict.kind !== 'admit') return { stop: otherwise(at, now, verdict) }
    if (world.clock.now() >= at.deadlineMs) return { stop: notSettled(at, now, message) }
    await world.clock.sleep(kind === 'member-not-found' || kind === 'member-id-exists' ? NEXT_SECOND_MS : SETTLING_RETRY_MS, AbortSignal.any([session.signal, at.options.hangUp, at.draining]))
  }
}

/** The answer to a joiner that is a member now, from a list read after it was added. */
async function answer (desk: Desk, at: Visit, id: MemberId): Promise<JoinAnswer> {
  for (let tries = 0; tries < ANSWER_TRIES; tries++) {
    const view = await desk.views.fresh()
    const member = view === undefined || view.stale ? undefined : at.member(view, id)
    if (member !== undefined) return member
  }
  return at.waiting(desk.views.latest(), 'EtcdUnreachable', 'the member was added, but the member list could not be read: ask again, and the same membership is yours')
}

function callTimeout (session: SlotSession, atMostMs: number): number {
  return Math.min(atMostMs, session.remainingMs() - LEASE_MARGIN_MS)
}

function otherwise (at: Visit, view: ClusterView, verdict: Verdict): JoinAnswer {
  switch (verdict.kind) {
    case 'wait': return at.waiting(view, verdict.reason, verdict.detail)
    case 'refuse': return at.refuse(view, verdict.reason, verdict.detail)
    default: return at.waiting(view, 'SlotTaken', 'the membership changed a moment ago')
  }
}

function notSettled (at: Visit, view: ClusterView, message: string): JoinAnswer {
  const missing = missingVoters(view)
  if (missing.length > 0) {
    return at.waiting(view, 'MemberDown', `etcd lets nobody in (${message}) while these voters are not available: ${missing.map(member => member.name === '' ? hexId(member.id) : member.name).join(', ')}`)
  }
  return at.waiting(view, 'Settling', `etcd lets nobody in until its voters have been connected for 5 s (${message})`)
}
