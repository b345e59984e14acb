/**
 * etcd3 as it is, without Lockkeeper's own layer, for what a test does to a cluster behind Lockkeeper's back and for
 * looking at the truth with other eyes than those under test. No retries, no circuit breaker: one call, one answer.
 */
import { readFileSync } from 'node:fs'
import { Etcd3 } from 'etcd3'
import type { IOptions } from 'etcd3'
import type { EtcdTls, Teardown } from './etcd.ts'

export interface BareMember {
  /** Decimal. */
  readonly id: string
  readonly name: string
  readonly peerUrls: readonly string[]
  readonly clientUrls: readonly string[]
  readonly isLearner: boolean
}

export interface BareEtcd {
  readonly client: Etcd3
  /** What the endpoint believes; on 3.5 and newer `linearizable` asks the quorum. */
  list: (linearizable?: boolean) => Promise<BareMember[]>
  addLearner: (peerUrl: string) => Promise<BareMember>
  addVoter: (peerUrl: string) => Promise<BareMember>
  /** By decimal ID. */
  promote: (id: string) => Promise<void>
  remove: (id: string) => Promise<void>
}

const CALL_TIMEOUT_MS = 10_000

/**
 * A client of one endpoint, closed at teardown.
 *
 * @param endpoint - a client URL
 */
export function bareEtcd (t: Teardown, endpoint: string, tls?: EtcdTls): BareEtcd {
  const once = { execute: <T> (work: (context: never) => T): T => work(undefined as never) }
  const options = {
    hosts: [endpoint],
    faultHandling: { host: () => once, global: once },
    defaultCallOptions: (context: { isStream: boolean }) => context.isStream ? {} : { deadline: Date.now() + CALL_TIMEOUT_MS },
    ...tls === undefined
      ? {}
      : { credentials: { rootCertificate: readFileSync(tls.ca), certChain: readFileSync(tls.cert), privateKey: readFileSync(tls.key) } }
  } as unknown as IOptions // The policies are cockatiel's; these do nothing, and need no more of its interface.
  const client = new Etcd3(options)
  t.teardown(() => { client.close() })

  const add = async (peerUrl: string, isLearner: boolean): Promise<BareMember> => {
    const { member } = await client.cluster.memberAdd({ peerURLs: [peerUrl], isLearner })
    return bareMember(member)
  }
  return {
    client,
    list: async (linearizable = false) => {
      const { members } = await client.cluster.memberList({ linearizable })
      return members.map(bareMember)
    },
    addLearner: peerUrl => add(peerUrl, true),
    addVoter: peerUrl => add(peerUrl, false),
    promote: async id => { await client.cluster.memberPromote({ ID: id }) },
    remove: async id => { await client.cluster.memberRemove({ ID: id }) }
  }
}

function bareMember (member: { ID: string, name: string, peerURLs: string[], clientURLs: string[], isLearner: boolean }): BareMember {
  return { id: member.ID, name: member.name, peerUrls: member.peerURLs, clientUrls: member.clientURLs, isLearner: member.isLearner }
}
