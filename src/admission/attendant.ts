/**
 * Finishes joins: one loop a replica. Every replica watches; only the holder of the slot acts, and only while it may
 * still believe that it holds it.
 */
import type { Membership, World } from './ports.ts'
import { planFor } from './plan.ts'
import type { Step } from './plan.ts'
import { isEvicting, pendingMembers, whyNotPromote } from './quorum.ts'
import { changeRecord, pruneRecords, recordOf } from './records.ts'
import { takeSlot } from './slot.ts'
import type { SlotSession } from './slot.ts'
import { hexId, isStarted } from './types.ts'
import type { ClusterView, JoinRecord, MemberId, ObservedMember, Policy } from './types.ts'
import type { ViewKeeper } from './view.ts'

/** How often it looks while somebody is pending or holds the slot: what a join waits for is etcd, not us. */
const BUSY_MS = 100
/** How often it looks otherwise; changes under the prefix wake it at once. */
const IDLE_MS = 3_000
/** How long a membership call may take; less where the slot can be believed in for less. etcd's own time-out is 7 s. */
const CALL_TIMEOUT_MS = 3_000
const PROBE_TIMEOUT_MS = 700
/** "Alive at this moment": a look older than this proves nothing any more. */
const PROOF_OF_LIFE_MS = 1_000
/** A record that cannot be written holds the slot no longer than so many looks. */
const MAX_RECORD_TRIES = 10
/** The asking again of one joiner is passed on to the attending replica at most this often a start timeout. */
const ASKS_PER_START_TIMEOUT = 10

export interface Attending {
  readonly session: SlotSession
  readonly joinId: string
  readonly memberId: MemberId
  /** When it was admitted here, on this replica's clock; undefined for an adopted one, whose admission nobody here timed. */
  readonly admittedAtMs: number | undefined
}

export interface Attendant {
  /** Takes over a join whose member has just been added, and the slot with it. */
  attend: (join: Attending) => void
  /** The joiner of this member has asked again, here: a sign of life. */
  asked: (member: MemberId) => void
  /** Looks at once instead of when the interval is over. */
  wake: () => void
  /** Stops, and gives the slot back so that another replica can adopt what is pending. */
  close: () => Promise<void>
}

interface Current extends Attending {
  readonly sinceMs: number
  askedAtMs: number | undefined
  /** `asked` of the record when it was last seen, to notice that another replica counted up. */
  askedSeen: number
  startNoted: boolean
  recordTries: number
}

export function startAttendant (world: World, views: ViewKeeper, policy: Policy, replica: string): Attendant {
  const { clock, store, prober, journal } = world
  const membership: Membership = world.membership
  const closed = new AbortController()
  let nap = new AbortController()
  let current: Current | undefined
  const passedOnAtMs = new Map<MemberId, number>()

  const unsubscribe = store.onChange(change => {
    // Places in the line, announcements and tokens change nothing for the attendant.
    if (change.kind === 'resync' || (change.kind === 'keys' && change.keys.some(key => key === 'slot' || key === 'pause' || key.startsWith('joins/')))) wake()
  })

  function isClosed (): boolean {
    return closed.signal.aborted
  }

  function wake (): void {
    nap.abort()
  }

  /** Forgets this join, but not one that has come after it while a call was under way. */
  function drop (join: Current): void {
    if (current === join) current = undefined
  }

  function budget (session: SlotSession): number {
    return Math.max(1, Math.min(CALL_TIMEOUT_MS, session.remainingMs()))
  }

  async function run (): Promise<void> {
    while (!isClosed()) {
      nap = new AbortController()
      const view = await views.fresh()
      let again = false
      if (view !== undefined && !isClosed()) again = current === undefined ? await adopt(view) : await attendOnce(current, view)
      const busy = current !== undefined || (view !== undefined && !view.stale && (view.slot !== undefined || pendingMembers(view).length > 0))
      if (!again) await clock.sleep(busy ? BUSY_MS : IDLE_MS, AbortSignal.any([nap.signal, closed.signal]))
    }
  }

  /** Takes the slot for a pending member that nobody attends: its replica died, or somebody added it by hand. */
  async function adopt (view: ClusterView): Promise<boolean> {
    const [orphan] = pendingMembers(view)
    if (view.stale || view.slot !== undefined || orphan === undefined) return false
    const found = recordOf(view, orphan.id)?.record
    const joinId = found?.id ?? world.newId()
    const taken = await takeSlot(world, {
      joinId,
      node: found?.node ?? nameOf(orphan),
      peerAddress: found?.peerAddress ?? orphan.peerUrls[0] ?? '',
      memberId: orphan.id,
      replica,
      since: clock.date()
    }, policy.slotTtlMs)
    if (!taken.ok || taken.value === undefined) return false
    const session = taken.value
    // Read again with the slot in hand: its former holder may have finished, or recorded an eviction, in between.
    const now = await views.fresh()
    const member = now?.members.find(candidate => candidate.id === orphan.id)
    if (now === undefined || now.stale || member === undefined || !session.live()) {
      await session.release()
      return false
    }
    const record = recordOf(now, orphan.id)?.record
    const own = record?.id ?? joinId
    if (record === undefined) {
      await changeRecord(world, own, before => before === undefined ? adoptedRecord(own, member) : undefined, [session.guard])
    }
    if (!session.live() || current !== undefined || isClosed()) {
      await session.release()
      return false
    }
    journal.info({ member: hexId(orphan.id), join: own, node: found?.node ?? nameOf(orphan) }, 'adopted a pending member')
    current = newCurrent({ session, joinId: own, memberId: orphan.id, admittedAtMs: undefined }, record)
    return true
  }

  function adoptedRecord (id: string, member: ObservedMember): JoinRecord {
    return { id, node: nameOf(member), peerAddress: member.peerUrls[0] ?? '', memberId: member.id, replica, origin: 'adopted', admittedAt: clock.date() }
  }

  function newCurrent (join: Attending, record: JoinRecord | undefined): Current {
    return { ...join, sinceMs: clock.now(), askedAtMs: undefined, askedSeen: record?.asked ?? 0, startNoted: record?.startedAt !== undefined, recordTries: 0 }
  }

  /** @returns true to look again at once */
  async function attendOnce (join: Current, view: ClusterView): Promise<boolean> {
    if (!join.session.live()) {
      journal.warn({ join: join.joinId, member: hexId(join.memberId) }, 'the slot can no longer be believed in; whoever takes it next goes on')
      drop(join)
      void join.session.release()
      return false
    }
    const now = clock.now()
    const asked = view.records.get(join.joinId)?.record.asked ?? 0
    if (asked > join.askedSeen) {
      join.askedSeen = asked
      join.askedAtMs = now
    }
    const step = planFor(view, {
      memberId: join.memberId,
      attendedForMs: now - join.sinceMs,
      askedAgoMs: join.askedAtMs === undefined ? undefined : now - join.askedAtMs
    }, policy)
    return act(join, view, step)
  }

  async function act (join: Current, view: ClusterView, step: Step): Promise<boolean> {
    switch (step.kind) {
      case 'wait':
        await noteStart(join, view)
        return false
      case 'promote': return promote(join, view, step.member)
      case 'evict': return evict(join, step.member, step.why)
      case 'finish': return finish(join, view, step.outcome)
    }
  }

  async function noteStart (join: Current, view: ClusterView): Promise<void> {
    const member = view.members.find(candidate => candidate.id === join.memberId)
    if (join.startNoted || member === undefined || !isStarted(member)) return
    join.startNoted = true
    journal.info({ join: join.joinId, node: member.name, member: hexId(member.id) }, 'the joiner has started')
    await changeRecord(world, join.joinId, record => record?.startedAt === undefined && record !== undefined ? { ...record, startedAt: clock.date() } : undefined, [join.session.guard])
  }

  async function promote (join: Current, view: ClusterView, learner: ObservedMember): Promise<boolean> {
    const lookedAtMs = clock.now()
    const probes = await prober.probe(view.members, { timeoutMs: PROBE_TIMEOUT_MS, signal: join.session.signal })
    const members = view.members.map(member => ({ ...member, alive: probes.get(member.id)?.answers === true }))
    const seenNow: ClusterView = { ...view, members }
    const self = members.find(member => member.id === learner.id)
    const obstacle = self === undefined ? 'it is gone' : whyNotPromote(seenNow, self)
    // A process that was frozen between the look and here has proof of nothing.
    if (obstacle !== undefined || clock.now() - lookedAtMs > PROOF_OF_LIFE_MS || !join.session.live()) return false
    const leader = view.members.find(member => member.id === view.leader)
    const result = await membership.promote(learner.id, leader, { timeoutMs: budget(join.session), signal: join.session.signal })
    if (result.ok) journal.info({ join: join.joinId, node: learner.name, member: hexId(learner.id) }, 'promoted')
    // Whatever went wrong, the member list tells what is: a voter now, still a learner, or gone.
    return result.ok || result.failure.kind === 'not-learner'
  }

  /** Two steps, so that whoever finds this member later goes on with the removal: first the intent, then the act. */
  async function evict (join: Current, learner: ObservedMember, why: string): Promise<boolean> {
    const recorded = await changeRecord(world, join.joinId, record => {
      const before = record ?? adoptedRecord(join.joinId, learner)
      return before.evictingAt === undefined ? { ...before, memberId: learner.id, evictingAt: clock.date(), why } : undefined
    }, [join.session.guard])
    if (!recorded.ok) return false
    const view = await views.fresh()
    const member = view?.members.find(candidate => candidate.id === learner.id)
    // Promoted meanwhile by a call that was still under way: a voter is never removed.
    if (view === undefined || view.stale || member === undefined || !member.isLearner || !isEvicting(view, learner.id) || !join.session.live()) return false
    journal.warn({ join: join.joinId, node: nameOf(learner), member: hexId(learner.id), why }, 'evicting a joiner')
    const result = await membership.remove(learner.id, { timeoutMs: budget(join.session), signal: join.session.signal })
    return result.ok || result.failure.kind === 'member-not-found'
  }

  async function finish (join: Current, view: ClusterView, outcome: 'voter' | 'gone'): Promise<boolean> {
    const now = clock.date()
    const tookMs = join.admittedAtMs === undefined ? undefined : Math.round(clock.now() - join.admittedAtMs)
    const written = await changeRecord(world, join.joinId, record => {
      if (record === undefined || record.promotedAt !== undefined || record.evictedAt !== undefined) return undefined
      if (outcome === 'voter') return { ...record, startedAt: record.startedAt ?? now, promotedAt: now, ...(tookMs === undefined ? {} : { tookMs }) }
      return { ...record, evictedAt: now, why: record.why ?? 'somebody else removed it' }
    }, [join.session.guard])
    join.recordTries++
    if (!written.ok && join.session.live() && join.recordTries < MAX_RECORD_TRIES) return false
    drop(join)
    await join.session.release()
    journal.info({ join: join.joinId, member: hexId(join.memberId), outcome, tookMs }, outcome === 'voter' ? 'a join is complete' : 'a join has ended without a voter')
    await pruneRecords(world, view)
    return true
  }

  const running = run()

  return {
    attend (join) {
      current = newCurrent(join, undefined)
      wake()
    },
    asked (member) {
      const now = clock.now()
      if (current?.memberId === member) {
        current.askedAtMs = now
        return
      }
      const last = passedOnAtMs.get(member)
      if (last !== undefined && now - last < policy.startTimeoutMs / ASKS_PER_START_TIMEOUT) return
      passedOnAtMs.set(member, now)
      const view = views.latest()
      const stored = view === undefined || view.stale ? undefined : recordOf(view, member)
      if (stored === undefined) return
      void changeRecord(world, stored.record.id, record => record === undefined ? undefined : { ...record, asked: (record.asked ?? 0) + 1 })
    },
    wake,
    async close () {
      closed.abort()
      unsubscribe()
      await running
      const last = current
      current = undefined
      await last?.session.release()
    }
  }
}

function nameOf (member: ObservedMember): string {
  return member.name === '' ? hexId(member.id) : member.name
}
