/**
 * The admission core over a real etcd, without the HTTP surface: what a replica of the server is to etcd.
 */
import { randomUUID } from 'node:crypto'
import { canonicalPeerUrl } from '../../src/admission/peer-url.ts'
import { DEFAULT_POLICY, startAdmission } from '../../src/admission/start.ts'
import type { Admission } from '../../src/admission/start.ts'
import type { JoinAnswer, JoinOptions } from '../../src/admission/answers.ts'
import type { World } from '../../src/admission/ports.ts'
import type { JoinRequest, Policy } from '../../src/admission/types.ts'
import { connectEtcd } from '../../src/etcd/world.ts'
import type { EtcdOptions, EtcdWorld } from '../../src/etcd/world.ts'
import { systemClock } from '../../src/system-clock.ts'
import type { Teardown } from './etcd.ts'

export interface Replica extends Admission {
  readonly id: string
  readonly etcd: EtcdWorld
  readonly world: World
  readonly journal: string[]
  /** Joins as a client would that waits for up to `holdMs` (default 30 s). */
  ask: (node: string, peerAddress: string, options?: Partial<JoinOptions> & { dataLost?: boolean }) => Promise<JoinAnswer>
  /** Asks until there is an answer that is not "wait". */
  askUntilAnswered: (node: string, peerAddress: string, options?: { dataLost?: boolean }) => Promise<JoinAnswer>
  /** Vanishes as a killed process does: gives nothing back. */
  vanish: () => void
}

export interface ReplicaOptions {
  readonly policy?: Partial<Policy>
  readonly etcd?: Partial<EtcdOptions>
  /** Changes the world before the core gets it: faults, frozen calls. */
  readonly warp?: (world: World) => World
}

export function joinRequest (node: string, peerAddress: string, dataLost = false): JoinRequest {
  const canonical = canonicalPeerUrl(peerAddress)
  if (!canonical.ok) throw new Error(canonical.why)
  return { node, peerUrl: canonical.url, peerAddress, dataLost }
}

export function startReplica (t: Teardown, endpoints: readonly string[], options: ReplicaOptions = {}): Replica {
  const id = randomUUID()
  const etcd = connectEtcd({ endpoints, credentials: {}, peerCredentials: {}, prefix: '/lockkeeper/', ...options.etcd })
  const journal: string[] = []
  const note = (fields: Readonly<Record<string, unknown>>, message: string): void => { journal.push(`${message} ${JSON.stringify(fields)}`) }
  const plain: World = {
    clock: systemClock,
    store: etcd.store,
    membership: etcd.membership,
    prober: etcd.prober,
    journal: { info: note, warn: note },
    random: Math.random,
    newId: randomUUID
  }
  const world = options.warp?.(plain) ?? plain
  const admission = startAdmission(world, { ...DEFAULT_POLICY, ...options.policy }, { id, address: 'test', version: '0', caFingerprint: '' })
  let gone = false
  t.teardown(async () => {
    admission.gatekeeper.drain()
    if (!gone) await admission.close()
    etcd.close()
  })
  const ask: Replica['ask'] = async (node, peerAddress, { dataLost = false, ...given } = {}) =>
    admission.gatekeeper.join(joinRequest(node, peerAddress, dataLost), { holdMs: 30_000, hangUp: new AbortController().signal, ...given })
  return {
    ...admission,
    id,
    etcd,
    world,
    journal,
    ask,
    async askUntilAnswered (node, peerAddress, given) {
      for (;;) {
        const answer = await ask(node, peerAddress, given)
        if (answer.kind !== 'wait') return answer
      }
    },
    vanish () {
      gone = true
      etcd.close()
    }
  }
}
