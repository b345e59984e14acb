/**
 * etcd's membership calls. Which endpoint is asked matters: see each function.
 */
import type { IMember } from 'etcd3'
import { fail, ok } from '../admission/ports.ts'
import type { CallOptions, MemberList, Membership, Result } from '../admission/ports.ts'
import { memberId } from '../admission/types.ts'
import type { Member, MemberId } from '../admission/types.ts'
import type { ClusterClient } from './cluster-client.ts'
import type { Endpoint } from './endpoint.ts'
import type { MemberClients } from './member-clients.ts'
import { createTxnCodec } from './txn-codec.ts'

function toMember (member: IMember): Member {
  return {
    id: memberId(member.ID),
    name: member.name,
    peerUrls: member.peerURLs,
    clientUrls: member.clientURLs,
    isLearner: member.isLearner
  }
}

async function listOn (endpoint: Endpoint, linearizable: boolean, options: CallOptions): Promise<Result<MemberList>> {
  const result = await endpoint.unary('Cluster.MemberList', { linearizable }, options)
  if (!result.ok) return result
  return ok({ clusterId: result.value.header.cluster_id, members: result.value.members.map(toMember) })
}

export function createMembership (client: ClusterClient, members: MemberClients, prefix: string): Membership {
  const codec = createTxnCodec(prefix)
  return {
    async read (txn, options) {
      const request = codec.encode(txn)
      return client.read(async (endpoint, opts) => {
        const started = performance.now()
        const reply = await endpoint.unary('KV.Txn', request, opts)
        if (!reply.ok) return reply
        const left = opts.timeoutMs - (performance.now() - started)
        if (left <= 0) return fail('ambiguous', `${endpoint.url} left no time for the member list`)
        const list = await listOn(endpoint, true, { ...opts, timeoutMs: left })
        if (!list.ok) return list
        members.keepOnly(list.value.members)
        return ok({ reply: codec.decode(reply.value), list: list.value })
      }, options)
    },
    readLocal: async options => client.read(async (endpoint, opts) => listOn(endpoint, false, opts), options),
    async addLearner (peerUrl, options) {
      const result = await client.unary('Cluster.MemberAdd', { peerURLs: [peerUrl], isLearner: true }, options)
      if (!result.ok) return result
      return ok(memberId(result.value.member.ID))
    },
    async promote (id: MemberId, leader: Member | undefined, options: CallOptions) {
      const direct = leader === undefined ? undefined : members.verified(leader)
      if (direct !== undefined) {
        const result = await direct.unary('Cluster.MemberPromote', { ID: id }, options)
        if (result.ok) return ok(undefined)
        if (result.failure.kind !== 'never-sent') return result
      }
      const result = await client.unary('Cluster.MemberPromote', { ID: id }, options)
      return result.ok ? ok(undefined) : result
    },
    async remove (id, options) {
      const result = await client.unary('Cluster.MemberRemove', { ID: id }, options)
      return result.ok ? ok(undefined) : result
    }
  }
}
