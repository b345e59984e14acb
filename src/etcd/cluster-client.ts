/**
 * The configured endpoints as one: a preferred endpoint that answered last, fail-over only where nothing can be
 * done twice, and hedged reads.
 */
import { fail, ok } from '../admission/ports.ts'
import type { CallOptions, Failure, Result } from '../admission/ports.ts'
import { createEndpoint } from './endpoint.ts'
import type { Endpoint, EtcdCredentials, UnaryCalls } from './endpoint.ts'

/** A read that has not been answered for this long is asked of the next endpoint too; the first good answer counts. */
const HEDGE_AFTER_MS = 300

export interface ClusterClient {
  readonly endpoints: readonly Endpoint[]
  /** The endpoint that answered last. */
  preferred: () => Endpoint
  /** Asks the endpoints in turn from the preferred one, going on only when the request provably had no effect. */
  unary: <C extends keyof UnaryCalls>(call: C, request: UnaryCalls[C][0], options: CallOptions) => Promise<Result<UnaryCalls[C][1]>>
  /**
   * Runs a read on the preferred endpoint, and on the next ones when it fails or keeps silent; the first good answer
   * wins and its endpoint becomes the preferred one. All failed: the first failure that says something about etcd.
   */
  read: <T>(run: (endpoint: Endpoint, options: CallOptions) => Promise<Result<T>>, options: CallOptions) => Promise<Result<T>>
  close: () => void
}

/** Nothing was done, and another endpoint may answer: the request never left, or was refused by a learner. */
function isSafeElsewhere (failure: Failure): boolean {
  return failure.kind === 'never-sent' || failure.kind === 'learner-endpoint'
}

/** Puts what etcd said itself before what only the network said. */
function moreTelling (a: Failure | undefined, b: Failure): Failure {
  if (a === undefined) return b
  const rank = (f: Failure): number => f.kind === 'never-sent' ? 0 : f.kind === 'ambiguous' || f.kind === 'cancelled' ? 1 : f.kind === 'learner-endpoint' ? 2 : 3
  return rank(b) > rank(a) ? b : a
}

/**
 * @param urls the endpoints, at least one
 * @throws Error when a certificate or key is none
 */
export function createClusterClient (urls: readonly string[], credentials: EtcdCredentials): ClusterClient {
  const endpoints = urls.map(url => createEndpoint(url, credentials))
  const [first] = endpoints
  if (first === undefined) throw new Error('an etcd client needs at least one endpoint')
  let preferred: Endpoint = first

  function inOrder (): Endpoint[] {
    const at = endpoints.indexOf(preferred)
    return [...endpoints.slice(at), ...endpoints.slice(0, at)]
  }

  return {
    endpoints,
    preferred: () => preferred,
    async unary (call, request, options) {
      const started = performance.now()
      let worst: Failure | undefined
      for (const endpoint of inOrder()) {
        const left = options.timeoutMs - (performance.now() - started)
        if (left <= 0 || options.signal?.aborted === true) break
        const result = await endpoint.unary(call, request, { ...options, timeoutMs: left })
        if (result.ok) { preferred = endpoint; return result }
        worst = moreTelling(worst, result.failure)
        if (!isSafeElsewhere(result.failure)) return result
      }
      return { ok: false, failure: worst ?? { kind: 'never-sent', message: 'given up before it was sent' } }
    },
    async read (run, options) {
      const queue = inOrder()
      const others = new AbortController()
      const signal = options.signal === undefined ? others.signal : AbortSignal.any([options.signal, others.signal])
      const started = performance.now()
      return new Promise(resolve => {
        let worst: Failure | undefined
        let running = 0
        let hedge: NodeJS.Timeout | undefined
        const startNext = (): void => {
          clearTimeout(hedge)
          const endpoint = queue.shift()
          const left = options.timeoutMs - (performance.now() - started)
          if (endpoint === undefined || left <= 0) {
            if (running === 0) resolve(worst === undefined ? fail('ambiguous', 'no endpoint was asked in time') : { ok: false, failure: worst })
            return
          }
          running++
          if (queue.length > 0) hedge = setTimeout(startNext, HEDGE_AFTER_MS)
          void run(endpoint, { timeoutMs: left, signal }).then(result => {
            running--
            if (result.ok) {
              preferred = endpoint
              clearTimeout(hedge)
              resolve(ok(result.value))
              others.abort()
              return
            }
            worst = moreTelling(worst, result.failure)
            startNext()
          })
        }
        startNext()
      })
    },
    close () {
      for (const endpoint of endpoints) endpoint.close()
    }
  }
}
