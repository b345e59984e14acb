/**
 * Clients of single members at the client URLs they advertise. A URL counts as a member's only once that member's own
 * Status has answered there: in a k0s cluster every member advertises `https://127.0.0.1:2379`, and asking that URL
 * three times would be asking oneself three times.
 */
import type { IStatusResponse } from 'etcd3'
import { fail, ok } from '../admission/ports.ts'
import type { CallOptions, Result } from '../admission/ports.ts'
import type { Member, MemberId } from '../admission/types.ts'
import { createEndpoint } from './endpoint.ts'
import type { Endpoint, EtcdCredentials } from './endpoint.ts'

export interface MemberClients {
  /** The member's own Status, or why none of its client URLs gave it. */
  status: (member: Member, options: CallOptions) => Promise<Result<IStatusResponse>>
  /** The client of a member whose Status has been verified at its present client URLs; undefined when there is none. */
  verified: (member: Member) => Endpoint | undefined
  /** Closes the clients of URLs that no member advertises any more. */
  keepOnly: (members: readonly Member[]) => void
  close: () => void
}

export function createMemberClients (credentials: EtcdCredentials): MemberClients {
  const byUrl = new Map<string, Endpoint>()
  const owner = new Map<string, MemberId>()

  function clientOf (url: string): Endpoint | undefined {
    if (!/^https?:\/\//.test(url)) return undefined
    let endpoint = byUrl.get(url)
    if (endpoint === undefined) {
      endpoint = createEndpoint(url, credentials)
      byUrl.set(url, endpoint)
    }
    return endpoint
  }

  return {
    async status (member, options) {
      const started = performance.now()
      let last: Result<IStatusResponse> = fail('never-sent', 'the member advertises no client URL')
      for (const url of member.clientUrls) {
        const endpoint = clientOf(url)
        const left = options.timeoutMs - (performance.now() - started)
        if (endpoint === undefined || left <= 0) continue
        last = await endpoint.unary('Maintenance.Status', {}, { ...options, timeoutMs: left })
        if (!last.ok) continue
        if (last.value.header.member_id === member.id) {
          owner.set(url, member.id)
          return ok(last.value)
        }
        owner.delete(url)
        last = fail('invalid', `${url} is answered by another member`)
      }
      return last
    },
    verified (member) {
      const url = member.clientUrls.find(candidate => owner.get(candidate) === member.id)
      return url === undefined ? undefined : byUrl.get(url)
    },
    keepOnly (members) {
      const used = new Set(members.flatMap(member => member.clientUrls))
      for (const [url, endpoint] of byUrl) {
        if (used.has(url)) continue
        endpoint.close()
        byUrl.delete(url)
        owner.delete(url)
      }
    },
    close () {
      for (const endpoint of byUrl.values()) endpoint.close()
      byUrl.clear()
      owner.clear()
    }
  }
}
