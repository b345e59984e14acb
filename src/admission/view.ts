/**
 * The one shared view of the cluster: read at most once at a time, handed to every request, and folded with what this
 * replica has observed so far.
 */
import type { MemberList, ReadOp, TxnReply, World } from './ports.ts'
import type { ViewSource } from './answers.ts'
import { describe, observe } from './observe.ts'
import type { Observations } from './observe.ts'
import { parseRecord, RECORDS_PREFIX } from './records.ts'
import { LINE_PREFIX, parseLineEntry } from './line.ts'
import { SLOT_KEY } from './slot.ts'
import { isPending } from './types.ts'
import type { Alarm, ClusterView, Pause, ReplicaInfo, SlotState, SlotValue, StoredRecord } from './types.ts'

export const PAUSE_KEY = 'pause'
export const REPLICAS_PREFIX = 'replicas/'

/** How long a linearizable reading may take: an election lasts 1 to 2 s, and a joiner is to be told of it rather than kept waiting. */
const READ_TIMEOUT_MS = 2_000
/** How long one endpoint's local answer may take. */
const LOCAL_TIMEOUT_MS = 1_000
/** How long a look at one member may take: less than the window in which it counts as alive. */
const PROBE_TIMEOUT_MS = 700
/** Voters are looked at this often at the most; pending members at every reading. */
const PROBE_EVERY_MS = 500
/** Records kept in memory before the whole is read again: deletions do not show in what is read by revision. */
const RECORDS_IN_MEMORY = 400

export interface ViewKeeper extends ViewSource {
  /** A view whose reading began after this call. Undefined when etcd cannot be reached at all. */
  fresh: () => Promise<ClusterView | undefined>
  /** The newest view, however old. */
  latest: () => ClusterView | undefined
  /** Calls back after every reading that succeeded. */
  onView: (listener: (view: ClusterView) => void) => () => void
}

interface Known {
  readonly slot: SlotState | undefined
  readonly line: ClusterView['line']
  readonly pause: Pause | undefined
  readonly replicas: readonly ReplicaInfo[]
  readonly records: ReadonlyMap<string, StoredRecord>
}

export function createViewKeeper (world: World): ViewKeeper {
  const { clock, membership, prober } = world
  const listeners = new Set<(view: ClusterView) => void>()
  let view: ClusterView | undefined
  let trouble: string | undefined
  let failedAtMs = Number.NEGATIVE_INFINITY
  let observations: Observations = new Map()
  let known: Known = { slot: undefined, line: [], pause: undefined, replicas: [], records: new Map() }
  let readUpTo = 0n
  let inFlight: Promise<ClusterView | undefined> | undefined
  let queued: Promise<ClusterView | undefined> | undefined

  async function read (): Promise<ClusterView | undefined> {
    const takenAtMs = clock.now()
    const reading = await membership.read({ compare: [], success: reads(readUpTo) }, { timeoutMs: READ_TIMEOUT_MS })
    if (reading.ok) {
      const { reply, list } = reading.value
      learn(reply)
      trouble = undefined
      return assemble(takenAtMs, false, list, [])
    }
    const corrupt: readonly Alarm[] = reading.failure.kind === 'corrupt' ? ['CORRUPT'] : []
    const local = await membership.readLocal({ timeoutMs: LOCAL_TIMEOUT_MS })
    trouble = reading.failure.message
    if (!local.ok) {
      failedAtMs = clock.now()
      return undefined
    }
    return assemble(takenAtMs, true, local.value, corrupt)
  }

  function learn (reply: TxnReply): void {
    const [slot, line, pause, replicas, joins] = reply.reads
    const restarted = reply.revision < readUpTo
    const records = new Map(restarted || readUpTo === 0n ? [] : known.records)
    for (const pair of joins ?? []) {
      const record = parseRecord(pair.value)
      if (record !== undefined) records.set(record.id, { record, modRevision: pair.modRevision })
    }
    known = {
      slot: slot?.[0] === undefined ? undefined : { value: parse(slot[0].value) as SlotValue | undefined ?? UNREADABLE_SLOT, createRevision: slot[0].createRevision },
      line: (line ?? []).map(parseLineEntry).filter(entry => entry !== undefined).sort((a, b) => a.createRevision < b.createRevision ? -1 : 1),
      pause: pause?.[0] === undefined ? undefined : parse(pause[0].value) as Pause | undefined ?? UNREADABLE_PAUSE,
      replicas: (replicas ?? []).map(pair => parse(pair.value) as ReplicaInfo | undefined).filter(info => info !== undefined),
      records
    }
    // An etcd that was restored from a backup has lower revisions: what is known of its records is worth nothing then.
    readUpTo = restarted || records.size > RECORDS_IN_MEMORY ? 0n : reply.revision
  }

  async function assemble (takenAtMs: number, stale: boolean, list: MemberList, alarms: readonly Alarm[]): Promise<ClusterView> {
    const due = list.members.filter(member => isPending(member) || takenAtMs - (observations.get(member.id)?.probedAtMs ?? Number.NEGATIVE_INFINITY) >= PROBE_EVERY_MS)
    const probes = await prober.probe(due, { timeoutMs: PROBE_TIMEOUT_MS })
    const now = clock.now()
    observations = observe(observations, list.members, probes, now)
    const members = describe(list.members, observations, now)
    const complaints = members.flatMap(member => member.status?.errors ?? [])
    const raised = (['NOSPACE', 'CORRUPT'] as const).filter(alarm => alarms.includes(alarm) || complaints.some(text => text.includes(`alarm:${alarm}`)))
    const leader = members.find(member => member.status?.leader === member.id)?.id ?? members.find(member => member.status?.leader !== undefined)?.status?.leader
    return { takenAtMs, stale, clusterId: list.clusterId, members, leader, alarms: raised, ...known }
  }

  function start (): Promise<ClusterView | undefined> {
    const running = read().then(result => {
      inFlight = undefined
      if (result !== undefined) {
        view = result
        for (const listener of listeners) listener(result)
      }
      return result
    })
    inFlight = running
    return running
  }

  return {
    async current (maxAgeMs) {
      const now = clock.now()
      if (view !== undefined && now - view.takenAtMs <= maxAgeMs) return view
      if (inFlight !== undefined) return inFlight
      // Nobody answered a moment ago: the next question waits its turn too.
      if (now - failedAtMs <= maxAgeMs) return undefined
      return start()
    },
    async fresh () {
      if (inFlight === undefined) return start()
      queued ??= inFlight.then(async () => {
        queued = undefined
        return inFlight ?? start()
      })
      return queued
    },
    latest: () => view,
    trouble: () => trouble,
    onView (listener) {
      listeners.add(listener)
      return () => { listeners.delete(listener) }
    }
  }
}

function reads (readUpTo: bigint): ReadOp[] {
  return [
    { op: 'get', key: SLOT_KEY },
    { op: 'range', prefix: LINE_PREFIX },
    { op: 'get', key: PAUSE_KEY },
    { op: 'range', prefix: REPLICAS_PREFIX },
    { op: 'range', prefix: RECORDS_PREFIX, ...(readUpTo > 0n ? { minModRevision: readUpTo + 1n } : {}) }
  ]
}

/** A slot that cannot be read is a slot that is held all the same. */
const UNREADABLE_SLOT: SlotValue = { joinId: '?', node: 'an unknown joiner', peerAddress: '', replica: '?', since: '' }
/** Whoever wrote the pause meant it, whatever the text. */
const UNREADABLE_PAUSE: Pause = { who: 'somebody', why: 'no reason given', since: '' }

function parse (text: string): object | undefined {
  try {
    const parsed: unknown = JSON.parse(text)
    return typeof parsed === 'object' && parsed !== null ? parsed : undefined
  } catch {
    return undefined
  }
}
