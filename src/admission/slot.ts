/**
 * The slot: the one place for a pending member. A key that exists at most once, bound to a lease.
 */
import { fail, ok } from './ports.ts'
import type { Compare, Op, Result, World } from './ports.ts'
import { holdLease, revoke } from './lease.ts'
import type { HeldLease } from './lease.ts'
import type { SlotValue } from './types.ts'

export const SLOT_KEY = 'slot'

/** How long etcd may take to grant a lease or to run a transaction here. */
const CALL_TIMEOUT_MS = 2_000

export interface SlotSession extends HeldLease {
  readonly value: SlotValue
  /** Holds as long as the slot is ours: what we write under the slot carries it. */
  readonly guard: Compare
  /** Rewrites the slot's value (the member ID, once it is known) as an operation of a guarded transaction. */
  update: (value: SlotValue) => Op
}

/**
 * Tries to take the slot. `{ ok: true, value: undefined }`: somebody else has it.
 * A reply that was lost is resolved by revoking the lease: if the key was written it goes with it, if the transaction
 * is still on its way it fails for want of the lease.
 */
export async function takeSlot (world: World, value: SlotValue, ttlMs: number): Promise<Result<SlotSession | undefined>> {
  const grantedAt = world.clock.now()
  const granted = await world.store.leaseGrant(ttlMs, { timeoutMs: CALL_TIMEOUT_MS })
  if (!granted.ok) return granted
  const leaseId = granted.value
  const result = await world.store.txn({
    compare: [{ key: SLOT_KEY, createRevision: 0n }],
    success: [{ op: 'put', key: SLOT_KEY, value: JSON.stringify(value), leaseId }]
  }, { timeoutMs: CALL_TIMEOUT_MS })
  if (!result.ok || !result.value.succeeded) {
    await revoke(world, leaseId)
    return result.ok ? ok(undefined) : result
  }
  const held = holdLease(world, leaseId, grantedAt, ttlMs)
  if (!held.live()) {
    await held.release()
    return fail('ambiguous', 'the slot was granted too late to be believed in')
  }
  return ok({
    ...held,
    value,
    guard: { key: SLOT_KEY, createRevision: result.value.revision },
    update: next => ({ op: 'put', key: SLOT_KEY, value: JSON.stringify(next), leaseId })
  })
}
