/**
 * Puts the admission core together over a world: one call a replica.
 */
import { startAnnouncing } from './announce.ts'
import type { Gatekeeper } from './answers.ts'
import { startAttendant } from './attendant.ts'
import { createGatekeeper } from './gatekeeper.ts'
import { createLine } from './line.ts'
import type { World } from './ports.ts'
import type { Policy, ReplicaInfo } from './types.ts'
import { createViewKeeper } from './view.ts'
import type { ViewKeeper } from './view.ts'

/** The defaults of `serve`, each with its reason in the design (5.2, 5.4, 5.5). */
export const DEFAULT_POLICY: Policy = {
  slotTtlMs: 10_000,
  startTimeoutMs: 5 * 60_000,
  stallTimeoutMs: 5 * 60_000,
  catchUpTimeoutMs: 60 * 60_000,
  replaceAfterMs: 10_000,
  maxMembers: 7,
  maxLine: 64,
  lineTtlMs: 90_000
}

export interface Admission {
  readonly gatekeeper: Gatekeeper
  readonly views: ViewKeeper
  /** Stops the attendant and gives back all leases; held requests must have been drained before. */
  close: () => Promise<void>
}

/** @param info how this replica announces itself to the others; its ID must be new at every start */
export function startAdmission (world: World, policy: Policy, info: ReplicaInfo): Admission {
  const views = createViewKeeper(world)
  const attendant = startAttendant(world, views, policy, info.id)
  const line = createLine(world, policy, info.id)
  const announcement = startAnnouncing(world, views, info)
  return {
    gatekeeper: createGatekeeper({ world, views, line, attendant, policy, replica: info.id }),
    views,
    async close () {
      await Promise.all([attendant.close(), announcement.close()])
    }
  }
}
