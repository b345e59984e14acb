/**
 * Binds what the admission core needs of etcd to real endpoints.
 */
import type { Membership, Prober, Store } from '../admission/ports.ts'
import { createClusterClient } from './cluster-client.ts'
import type { ClusterClient } from './cluster-client.ts'
import type { EtcdCredentials } from './endpoint.ts'
import { createMemberClients } from './member-clients.ts'
import { createMembership } from './membership.ts'
import { createProber } from './prober.ts'
import type { PeerCredentials } from './prober.ts'
import { createStore } from './store.ts'

export interface EtcdOptions {
  /** `http://host:port` or `https://host:port`, at least one. */
  readonly endpoints: readonly string[]
  readonly credentials: EtcdCredentials
  readonly peerCredentials: PeerCredentials
  /** All of Lockkeeper's keys are below it; ends in `/`. */
  readonly prefix: string
}

export interface EtcdWorld {
  readonly client: ClusterClient
  readonly store: Store
  readonly membership: Membership
  readonly prober: Prober
  /** Ends watches and connections. Leases are to be given back before. */
  close: () => void
}

/** @throws Error when a certificate or key is none */
export function connectEtcd (options: EtcdOptions): EtcdWorld {
  const client = createClusterClient(options.endpoints, options.credentials)
  const members = createMemberClients(options.credentials)
  const store = createStore(client, options.prefix)
  const prober = createProber(members, options.peerCredentials)
  return {
    client,
    store,
    membership: createMembership(client, members, options.prefix),
    prober,
    close () {
      store.close()
      prober.close()
      members.close()
      client.close()
    }
  }
}
