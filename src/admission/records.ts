/**
 * Join records: written only by transactions that compare, so that replicas do not overwrite each other.
 */
import { fail, ok } from './ports.ts'
import type { Compare, Op, Result, World } from './ports.ts'
import type { ClusterView, JoinRecord, MemberId, StoredRecord } from './types.ts'

export const RECORDS_PREFIX = 'joins/'
/** The newest so many records are kept. */
export const RECORDS_KEPT = 200

const CALL_TIMEOUT_MS = 2_000
/** A record that somebody else changes between our read and our write is read again this often. */
const MAX_TRIES = 5

export function recordKey (id: string): string {
  return RECORDS_PREFIX + id
}

/** The newest record of a member in a view; undefined when nobody has written one. */
export function recordOf (view: ClusterView, member: MemberId): StoredRecord | undefined {
  let newest: StoredRecord | undefined
  for (const stored of view.records.values()) {
    if (stored.record.memberId === member && (newest === undefined || stored.modRevision > newest.modRevision)) newest = stored
  }
  return newest
}

/**
 * Reads a record, changes it, and writes it if nobody else has in between.
 * @param change gets the record as it stands, undefined when there is none; returns undefined to leave it so
 * @param guards further conditions, such as the slot's
 * @param also further operations of the same transaction
 * @returns the record as it is now; a guard that no longer holds is `invalid`
 */
export async function changeRecord (
  world: World,
  id: string,
  change: (record: JoinRecord | undefined) => JoinRecord | undefined,
  guards: readonly Compare[] = [],
  also: readonly Op[] = []
): Promise<Result<JoinRecord | undefined>> {
  const key = recordKey(id)
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const read = await world.store.txn({ compare: [], success: [{ op: 'get', key }] }, { timeoutMs: CALL_TIMEOUT_MS })
    if (!read.ok) return read
    const [found] = read.value.reads[0] ?? []
    const before = found === undefined ? undefined : parseRecord(found.value)
    const after = change(before)
    if (after === undefined) return ok(before)
    const written = await world.store.txn({
      compare: [found === undefined ? { key, createRevision: 0n } : { key, modRevision: found.modRevision }, ...guards],
      success: [{ op: 'put', key, value: JSON.stringify(after) }, ...also],
      failure: guards.flatMap((guard): Op[] => [{ op: 'get', key: guard.key }])
    }, { timeoutMs: CALL_TIMEOUT_MS })
    if (!written.ok) return written
    if (written.value.succeeded) return ok(after)
    const broken = guards.some((guard, at) => {
      const [now] = written.value.reads[at] ?? []
      return 'createRevision' in guard ? (now?.createRevision ?? 0n) !== guard.createRevision : (now?.modRevision ?? 0n) !== guard.modRevision
    })
    if (broken) return fail('invalid', 'the slot is no longer ours')
  }
  return fail('overloaded', `record ${id} changed ${MAX_TRIES} times while it was being written`)
}

/** Reads a record's JSON; undefined for what is none (written by hand, or by a later version). */
export function parseRecord (text: string): JoinRecord | undefined {
  try {
    const parsed: unknown = JSON.parse(text)
    return typeof parsed === 'object' && parsed !== null && 'id' in parsed && typeof parsed.id === 'string' ? parsed as JoinRecord : undefined
  } catch {
    return undefined
  }
}

/** Deletes the oldest records beyond those that are kept; never one of a member that is still pending. */
export async function pruneRecords (world: World, view: ClusterView): Promise<void> {
  const present = new Set(view.members.map(member => member.id))
  const old = [...view.records.entries()]
    .sort(([, a], [, b]) => a.modRevision < b.modRevision ? 1 : -1)
    .slice(RECORDS_KEPT)
    .filter(([, { record }]) => record.memberId === undefined || !present.has(record.memberId) || record.promotedAt !== undefined)
    // etcd takes 128 operations a transaction at most (--max-txn-ops).
    .slice(0, 100)
  if (old.length === 0) return
  await world.store.txn({ compare: [], success: old.map(([id]) => ({ op: 'delete', key: recordKey(id) })) }, { timeoutMs: CALL_TIMEOUT_MS })
}
