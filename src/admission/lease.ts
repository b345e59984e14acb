/**
 * Holding a lease without ever believing in it too long. etcd3's own lease tells of its loss only after 2 × TTL, when
 * somebody else has long taken the lock (etcd3 #155). Here the holder gives up at the last keep-alive it *sent* and
 * that was answered + 0.8 × TTL: etcd cannot have let it expire before that, whatever happened to the reply.
 */
import type { World } from './ports.ts'

/** The share of the TTL after which the holder no longer believes: the rest covers a clock that runs fast, and the work under way. */
const BELIEVE_FOR = 0.8
/** Keep-alives a TTL: one may get lost. */
const KEEPALIVES_PER_TTL = 3
/** The pause after a keep-alive that failed. */
const RETRY_MS = 200

export interface HeldLease {
  readonly leaseId: string
  /** Aborts when the lease is given back, lost, or can no longer be believed in. */
  readonly signal: AbortSignal
  /** False as soon as the lease can no longer be believed in, even before the signal could fire (a frozen process). */
  live: () => boolean
  /** How long it can be believed in without another keep-alive. Milliseconds, 0 when it is over. */
  remainingMs: () => number
  /** Gives the lease back by revoking it; a lost reply is made up for by trying again and, last, by the TTL. */
  release: () => Promise<void>
}

/**
 * Keeps a lease alive from now on.
 * @param grantedAtMs when the grant was *sent*, on the world's clock
 * @param ttlMs the TTL that was asked for (etcd may have granted more, never less)
 */
export function holdLease (world: World, leaseId: string, grantedAtMs: number, ttlMs: number): HeldLease {
  const { clock, store } = world
  const over = new AbortController()
  let believedUntil = grantedAtMs + BELIEVE_FOR * ttlMs

  const live = (): boolean => !over.signal.aborted && clock.now() < believedUntil

  async function keepAlive (): Promise<void> {
    await clock.sleep(ttlMs / KEEPALIVES_PER_TTL, over.signal)
    while (live()) {
      const sentAt = clock.now()
      const result = await store.leaseKeepAlive(leaseId, { timeoutMs: Math.max(1, Math.min(ttlMs / KEEPALIVES_PER_TTL, believedUntil - sentAt)), signal: over.signal })
      if (result.ok) believedUntil = Math.max(believedUntil, sentAt + BELIEVE_FOR * ttlMs)
      else if (result.failure.kind === 'lease-not-found') break
      await clock.sleep(result.ok ? ttlMs / KEEPALIVES_PER_TTL : RETRY_MS, over.signal)
    }
    over.abort()
  }

  async function watchTheClock (): Promise<void> {
    while (!over.signal.aborted) {
      const left = believedUntil - clock.now()
      if (left <= 0) over.abort()
      else await clock.sleep(left, over.signal)
    }
  }

  void keepAlive()
  void watchTheClock()

  return {
    leaseId,
    signal: over.signal,
    live,
    remainingMs: () => live() ? believedUntil - clock.now() : 0,
    async release () {
      over.abort()
      await revoke(world, leaseId)
    }
  }
}

/** How often, and for how long each time, a revoke is tried before the TTL is left to do it. */
const REVOKE_TRIES = 3
const REVOKE_TIMEOUT_MS = 1_000

/** Revokes a lease; an answer that was lost is asked for again, since revoking twice does no harm. */
export async function revoke (world: World, leaseId: string): Promise<void> {
  for (let tries = 0; tries < REVOKE_TRIES; tries++) {
    const result = await world.store.leaseRevoke(leaseId, { timeoutMs: REVOKE_TIMEOUT_MS })
    if (result.ok) return
    await world.clock.sleep(RETRY_MS)
  }
  world.journal.warn({ leaseId }, 'a lease could not be given back; it ends by itself')
}
