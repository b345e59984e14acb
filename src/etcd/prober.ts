/**
 * A look at each member: its own Status where its client URL can be used, else its peer port.
 */
import http from 'node:http'
import https from 'node:https'
import type { IStatusResponse } from 'etcd3'
import type { CallOptions, Prober } from '../admission/ports.ts'
import { isStarted, memberId } from '../admission/types.ts'
import type { Member, MemberId, MemberStatus, Probe } from '../admission/types.ts'
import type { MemberClients } from './member-clients.ts'

export interface PeerCredentials {
  /** PEM; shown to the peer port so that it answers instead of ending the handshake. */
  readonly cert?: Buffer | undefined
  readonly key?: Buffer | undefined
}

function toStatus (reply: IStatusResponse): MemberStatus {
  return {
    version: reply.version,
    dbSizeBytes: Number(reply.dbSize),
    leader: reply.leader === '0' ? undefined : memberId(reply.leader),
    raftIndex: BigInt(reply.raftIndex),
    raftAppliedIndex: BigInt(reply.raftAppliedIndex),
    isLearner: reply.isLearner,
    errors: reply.errors
  }
}

export function createProber (clients: MemberClients, credentials: PeerCredentials): Prober & { close: () => void } {
  const plain = new http.Agent({ keepAlive: true, maxSockets: 2 })
  const tls = new https.Agent({
    keepAlive: true,
    maxSockets: 2,
    // Liveness is asked here, not identity: whoever answers on the peer port is talked to by etcd alone.
    rejectUnauthorized: false,
    ...(credentials.cert !== undefined && credentials.key !== undefined ? { cert: credentials.cert, key: credentials.key } : {})
  })

  /**
   * Does somebody answer at this peer URL? GET /version needs no quorum (etcd 3.4 to 3.7). A hung etcd still has its
   * connections accepted by the kernel, so connecting alone proves nothing; a TLS handshake, even one that ends in an
   * alert for want of a certificate, is an answer of the process.
   */
  async function peerAnswers (url: string, { timeoutMs, signal }: CallOptions): Promise<boolean> {
    if (!URL.canParse('/version', url)) return false
    const target = new URL('/version', url)
    const secure = target.protocol === 'https:'
    if (!secure && target.protocol !== 'http:') return false
    return new Promise(resolve => {
      let answered = false
      const settle = (answer: boolean): void => {
        clearTimeout(timer)
        resolve(answer)
      }
      const request = secure ? https.get(target, { agent: tls }) : http.get(target, { agent: plain })
      const giveUp = (): void => {
        settle(answered)
        request.destroy()
      }
      const timer = setTimeout(giveUp, timeoutMs)
      signal?.addEventListener('abort', giveUp, { once: true })
      request.on('socket', socket => socket.once('secureConnect', () => { answered = true }))
      request.on('response', response => {
        response.resume()
        settle(true)
      })
      request.on('error', (error: NodeJS.ErrnoException) => settle(answered || isAlert(error)))
    })
  }

  async function probeOne (member: Member, options: CallOptions): Promise<Probe> {
    if (member.clientUrls.length > 0) {
      const reply = await clients.status(member, options)
      if (reply.ok) {
        const status = toStatus(reply.value)
        return { health: status.leader === undefined ? 'reachable' : 'healthy', answers: true, status }
      }
    }
    const answers = (await Promise.all(member.peerUrls.map(async url => peerAnswers(url, options)))).includes(true)
    if (!isStarted(member)) return { health: 'unstarted', answers, status: undefined }
    return { health: answers ? 'reachable' : 'unreachable', answers, status: undefined }
  }

  return {
    async probe (members, options) {
      const probes = await Promise.all(members.map(async (member): Promise<[MemberId, Probe]> => [member.id, await probeOne(member, options)]))
      return new Map(probes)
    },
    close () {
      plain.destroy()
      tls.destroy()
    }
  }
}

/** A TLS alert came from the other side: OpenSSL names it in the error's code or text. */
function isAlert (error: NodeJS.ErrnoException): boolean {
  return error.code?.includes('ALERT') === true || / alert /.test(error.message)
}
