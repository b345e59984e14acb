/**
 * Announces this replica under `replicas/`, and warns when another one works with a different CA: joiners would get
 * certificates that the others do not accept.
 */
import { holdLease, revoke } from './lease.ts'
import type { HeldLease } from './lease.ts'
import type { World } from './ports.ts'
import type { ReplicaInfo } from './types.ts'
import { REPLICAS_PREFIX } from './view.ts'
import type { ViewKeeper } from './view.ts'

/** A replica that died is forgotten after this time. */
const ANNOUNCEMENT_TTL_MS = 30_000
const CALL_TIMEOUT_MS = 2_000
const RETRY_MS = 2_000

export function startAnnouncing (world: World, views: ViewKeeper, info: ReplicaInfo): { close: () => Promise<void> } {
  const closed = new AbortController()
  const warned = new Set<string>()
  let held: HeldLease | undefined

  const off = views.onView(view => {
    for (const other of view.replicas) {
      if (other.caFingerprint === info.caFingerprint || warned.has(other.id)) continue
      warned.add(other.id)
      world.journal.warn({ replica: other.id, address: other.address, theirs: other.caFingerprint, ours: info.caFingerprint },
        'another replica works with a different CA: give all replicas the same --pki-dir')
    }
  })

  async function announce (): Promise<HeldLease | undefined> {
    const sentAt = world.clock.now()
    const granted = await world.store.leaseGrant(ANNOUNCEMENT_TTL_MS, { timeoutMs: CALL_TIMEOUT_MS })
    if (!granted.ok) return undefined
    const put = await world.store.txn({ compare: [], success: [{ op: 'put', key: REPLICAS_PREFIX + info.id, value: JSON.stringify(info), leaseId: granted.value }] }, { timeoutMs: CALL_TIMEOUT_MS })
    if (put.ok) return holdLease(world, granted.value, sentAt, ANNOUNCEMENT_TTL_MS)
    await revoke(world, granted.value)
    return undefined
  }

  async function run (): Promise<void> {
    while (!closed.signal.aborted) {
      held = await announce()
      if (held !== undefined) await untilAborted(AbortSignal.any([held.signal, closed.signal]))
      else await world.clock.sleep(RETRY_MS, closed.signal)
    }
    await held?.release()
  }

  const running = run()
  return {
    async close () {
      closed.abort()
      off()
      await running
    }
  }
}

async function untilAborted (signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise<void>(resolve => { signal.addEventListener('abort', () => resolve(), { once: true }) })
}
