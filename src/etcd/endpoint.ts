/**
 * One etcd endpoint. The only file that touches etcd3's connection handling: its retries and circuit breakers are
 * switched off (they repeat writes after ambiguous failures, and take "unhealthy cluster" for a dead host), every
 * call gets a deadline, and the numeric gRPC code, which etcd3 drops, is kept.
 */
import { Etcd3 } from 'etcd3'
import type {
  ILeaseGrantRequest, ILeaseGrantResponse, ILeaseRevokeRequest, ILeaseRevokeResponse, IMemberAddRequest, IMemberAddResponse,
  IMemberListRequest, IMemberListResponse, IMemberPromoteRequest, IMemberPromoteResponse, IMemberRemoveRequest, IMemberRemoveResponse,
  IMoveLeaderRequest, IMoveLeaderResponse, IOptions, IStatusRequest, IStatusResponse, ITxnRequest, ITxnResponse
} from 'etcd3'
import { fail, ok } from '../admission/ports.ts'
import type { CallOptions, Result } from '../admission/ports.ts'
import { failureOf } from './outcomes.ts'

/** The unary calls in use: request and reply, by service and method as in etcd's rpc.proto. */
export interface UnaryCalls {
  'KV.Txn': [ITxnRequest, ITxnResponse]
  'Lease.LeaseGrant': [ILeaseGrantRequest, ILeaseGrantResponse]
  'Lease.LeaseRevoke': [ILeaseRevokeRequest, ILeaseRevokeResponse]
  'Cluster.MemberAdd': [IMemberAddRequest, IMemberAddResponse]
  'Cluster.MemberRemove': [IMemberRemoveRequest, IMemberRemoveResponse]
  'Cluster.MemberList': [IMemberListRequest & { linearizable?: boolean }, IMemberListResponse]
  'Cluster.MemberPromote': [IMemberPromoteRequest, IMemberPromoteResponse]
  'Maintenance.Status': [IStatusRequest, IStatusResponse]
  'Maintenance.MoveLeader': [IMoveLeaderRequest, IMoveLeaderResponse]
}

type ServiceName = Parameters<Etcd3['pool']['withConnection']>[0]

/** A bidirectional gRPC stream, as far as it is used here. */
export interface DuplexStream<Request, Reply> {
  write: (message: Request) => unknown
  cancel: () => void
  on: ((event: 'data', listener: (reply: Reply) => void) => unknown) &
    ((event: 'error', listener: (error: unknown) => void) => unknown) &
    ((event: 'end', listener: () => void) => unknown)
}

export interface EtcdCredentials {
  /** PEM. Absent for plain http. */
  readonly ca?: Buffer | undefined
  readonly cert?: Buffer | undefined
  readonly key?: Buffer | undefined
  readonly username?: string | undefined
  readonly password?: string | undefined
}

/** gRPC pings: etcd answers more than one each 5 s with GOAWAY (`--grpc-keepalive-min-time`, etcd 3.4 to 3.7). */
const KEEPALIVE_MS = 10_000
/** A ping unanswered for this long means that the connection is dead. */
const KEEPALIVE_TIMEOUT_MS = 3_000
/** A host that comes back must be noticed soon: gRPC's own back-off would grow to two minutes. */
const RECONNECT_MAX_MS = 1_000
/** How long a password may take to become a token. */
const AUTHENTICATE_TIMEOUT_MS = 2_000
/** Our own timer fires this much after gRPC's deadline, so that gRPC's more precise error wins when it works. */
const DEADLINE_GRACE_MS = 100

export interface Endpoint {
  readonly url: string
  unary: <C extends keyof UnaryCalls>(call: C, request: UnaryCalls[C][0], options: CallOptions) => Promise<Result<UnaryCalls[C][1]>>
  /** Opens a stream; its errors come as events. `deadlineMs` ends it, undefined leaves it open. */
  stream: <Request, Reply>(service: 'Watch' | 'Lease', method: string, deadlineMs?: number) => Promise<Result<DuplexStream<Request, Reply>>>
  close: () => void
}

/** `pool` is protected in etcd3; the subclass is the way to it that keeps etcd3's TLS, channels and password tokens. */
class RawEtcd3 extends Etcd3 {
  get connections (): Etcd3['pool'] { return this.pool }
}

type UnaryMethod = (request: unknown, metadata: unknown, options: { deadline: number }, done: (error: unknown, reply: unknown) => void) => { cancel: () => void }
type StreamMethod = (metadata: unknown, options: { deadline?: number }) => unknown

/** etcd3 runs every host and call through a policy; this one does nothing but run it. */
type Policies = NonNullable<IOptions['faultHandling']>
const straightThrough = { execute: async (run: () => unknown) => run() } as unknown as NonNullable<Policies['global']>

function connect (url: string, credentials: EtcdCredentials): RawEtcd3 {
  const options: IOptions = {
    hosts: url,
    faultHandling: { global: straightThrough, host: () => straightThrough },
    grpcOptions: {
      'grpc.keepalive_time_ms': KEEPALIVE_MS,
      'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': RECONNECT_MAX_MS,
      // A history of 10,000 members and records stays far below this; etcd's own limit is on requests (1.5 MiB).
      'grpc.max_receive_message_length': 32 * 1024 * 1024,
      // Endpoints differ in nothing but their address here: no sharing of channels between clients of one process.
      'grpc.use_local_subchannel_pool': 1
    }
  }
  if (url.startsWith('https:') && credentials.ca !== undefined) {
    options.credentials = {
      rootCertificate: credentials.ca,
      ...(credentials.key !== undefined && credentials.cert !== undefined ? { privateKey: credentials.key, certChain: credentials.cert } : {})
    }
  }
  if (credentials.username !== undefined && credentials.password !== undefined) {
    options.auth = {
      username: credentials.username,
      password: credentials.password,
      callOptions: () => ({ deadline: Date.now() + AUTHENTICATE_TIMEOUT_MS })
    }
  }
  return new RawEtcd3(options)
}

function statusOf (error: unknown): { code: number; details: string } {
  const code = typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'number' ? error.code : 2
  const details = typeof error === 'object' && error !== null && 'details' in error && typeof error.details === 'string'
    ? error.details
    : error instanceof Error ? error.message : String(error)
  return { code, details }
}

/**
 * A client of one endpoint.
 * @param url `http://host:port` or `https://host:port`
 * @throws Error when the certificate or key is none (gRPC reads them at once)
 */
export function createEndpoint (url: string, credentials: EtcdCredentials): Endpoint {
  let client = connect(url, credentials)
  let closed = false

  /** etcd3 keeps an expired password token; a fresh client asks for a new one. */
  function reconnect (): void {
    const old = client
    client = connect(url, credentials)
    old.close()
  }

  async function once <C extends keyof UnaryCalls> (call: C, request: UnaryCalls[C][0], { timeoutMs, signal }: CallOptions): Promise<Result<UnaryCalls[C][1]>> {
    if (closed) return fail('never-sent', 'the client is closed')
    if (signal?.aborted === true) return fail('never-sent', 'given up before it was sent')
    const [service, method] = call.split('.') as [ServiceName, string]
    return new Promise(resolve => {
      let running: { cancel: () => void } | undefined
      let sent = false
      const settle = (result: Result<UnaryCalls[C][1]>): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
        resolve(result)
      }
      const giveUp = (message: string): void => {
        running?.cancel()
        settle(sent ? fail('ambiguous', message) : fail('never-sent', message))
      }
      const onAbort = (): void => giveUp('given up while the answer was outstanding')
      const timer = setTimeout(() => giveUp(`no answer from ${url} within ${timeoutMs} ms`), timeoutMs + DEADLINE_GRACE_MS)
      signal?.addEventListener('abort', onAbort, { once: true })
      client.connections.withConnection(service, ({ client: stub, metadata }) => {
        if (signal?.aborted === true) return
        const run = (stub as unknown as Record<string, UnaryMethod | undefined>)[method]
        if (run === undefined) { settle(fail('invalid', `etcd3 has no ${call}`)); return }
        sent = true
        running = run.call(stub, request, metadata, { deadline: Date.now() + timeoutMs }, (error, reply) => {
          if (error === null || error === undefined) { settle(ok(reply as UnaryCalls[C][1])); return }
          const { code, details } = statusOf(error)
          settle({ ok: false, failure: failureOf(code, details) })
        })
      }).catch((error: unknown) => {
        // Only the password exchange and the choice of the host can fail here: the request itself answers above.
        const { code, details } = statusOf(error)
        const failure = failureOf(code, details)
        settle({ ok: false, failure: failure.kind === 'auth' ? failure : { ...failure, kind: 'never-sent' } })
      })
    })
  }

  return {
    url,
    async unary (call, request, options) {
      const first = await once(call, request, options)
      // A refused token means that nothing was done: the one case in which asking again is safe for a write too.
      if (first.ok || credentials.username === undefined || first.failure.message !== 'etcdserver: invalid auth token' || closed) return first
      reconnect()
      return once(call, request, options)
    },
    async stream <Request, Reply> (service: 'Watch' | 'Lease', method: string, deadlineMs?: number): Promise<Result<DuplexStream<Request, Reply>>> {
      if (closed) return fail('never-sent', 'the client is closed')
      try {
        const opened = await client.connections.withConnection(service, ({ client: stub, metadata }) => {
          const run = (stub as unknown as Record<string, StreamMethod | undefined>)[method]
          return run?.call(stub, metadata, deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs })
        })
        if (opened === undefined) return fail('invalid', `etcd3 has no ${service}.${method}`)
        return ok(opened as DuplexStream<Request, Reply>)
      } catch (error) {
        const { code, details } = statusOf(error)
        return { ok: false, failure: failureOf(code, details) }
      }
    },
    close () {
      closed = true
      client.close()
    }
  }
}
