/**
 * The key-value store under Lockkeeper's prefix, over etcd: transactions, leases, and word of changes.
 */
import { fail, ok } from '../admission/ports.ts'
import type { CallOptions, Change, ReadOp, Result, Store } from '../admission/ports.ts'
import type { ClusterClient } from './cluster-client.ts'
import { createTxnCodec } from './txn-codec.ts'
import { watchPrefix } from './watch.ts'

interface KeepAliveRequest { ID: string }
interface KeepAliveReply { ID: string; TTL: string }

/** @param prefix all keys are below it; ends in `/` */
export function createStore (client: ClusterClient, prefix: string): Store & { close: () => void } {
  const codec = createTxnCodec(prefix)
  const listeners = new Set<(change: Change) => void>()
  const watch = watchPrefix(client, prefix, change => { for (const listener of listeners) listener(change) })

  async function keepAliveOnce (leaseId: string, timeoutMs: number): Promise<Result<void>> {
    const opened = await client.preferred().stream<KeepAliveRequest, KeepAliveReply>('Lease', 'LeaseKeepAlive', timeoutMs)
    if (!opened.ok) return opened
    const stream = opened.value
    return new Promise(resolve => {
      const timer = setTimeout(() => {
        stream.cancel()
        resolve(fail('ambiguous', `no keep-alive answer within ${timeoutMs} ms`))
      }, timeoutMs)
      const settle = (result: Result<void>): void => {
        clearTimeout(timer)
        resolve(result)
        stream.cancel()
      }
      stream.on('data', reply => settle(BigInt(reply.TTL) > 0n ? ok(undefined) : fail('lease-not-found', 'the lease has expired or was revoked')))
      stream.on('error', error => settle(fail('ambiguous', error instanceof Error ? error.message : String(error))))
      stream.on('end', () => settle(fail('ambiguous', 'the keep-alive stream ended without an answer')))
      stream.write({ ID: leaseId })
    })
  }

  return {
    async txn (txn, options) {
      const result = await client.unary('KV.Txn', codec.encode(txn), options)
      return result.ok ? ok(codec.decode(result.value)) : result
    },
    async readLocal (reads: readonly ReadOp[], options: CallOptions) {
      const request = codec.encode({ compare: [], success: reads }, true)
      return client.read(async (endpoint, opts) => {
        const result = await endpoint.unary('KV.Txn', request, opts)
        return result.ok ? ok(codec.decode(result.value)) : result
      }, options)
    },
    async leaseGrant (ttlMs, options) {
      const result = await client.unary('Lease.LeaseGrant', { ID: '0', TTL: Math.ceil(ttlMs / 1000).toString() }, options)
      return result.ok ? ok(result.value.ID) : result
    },
    async leaseKeepAlive (leaseId, { timeoutMs }) {
      return keepAliveOnce(leaseId, timeoutMs)
    },
    async leaseRevoke (leaseId, options) {
      const result = await client.unary('Lease.LeaseRevoke', { ID: leaseId }, options)
      if (result.ok || result.failure.kind === 'lease-not-found') return ok(undefined)
      return result
    },
    onChange (listener) {
      listeners.add(listener)
      return () => { listeners.delete(listener) }
    },
    close () {
      listeners.clear()
      watch.stop()
    }
  }
}
