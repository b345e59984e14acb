/**
 * Word of changes under a prefix. A raw watch stream, not etcd3's Watcher: that one throws out of its stream handler,
 * loses the compact revision and repeats its errors for ever after a close (etcd3 #84, #72). Here every break means
 * only "look again": the stream is opened anew from now on, and the listener is told that it may have missed something.
 */
import type { Change } from '../admission/ports.ts'
import type { ClusterClient } from './cluster-client.ts'
import type { DuplexStream } from './endpoint.ts'
import { prefixEnd } from './txn-codec.ts'

interface WatchRequest { create_request: { key: Buffer; range_end: Buffer; progress_notify: boolean } }
interface WatchReply { created: boolean; canceled: boolean; events: ReadonlyArray<{ kv: { key: Buffer } }> }

/** The pause before a broken watch is opened again: short, for the first seconds of an election are when it matters. */
const REOPEN_AFTER_MS = 250
/** A watch that etcd has not confirmed by then is opened elsewhere. */
const CONFIRM_WITHIN_MS = 2_000

/**
 * Watches until stopped; never throws.
 * @param listener gets the changed keys relative to the prefix, `resync` whenever the watch is on (again), `lost` when it breaks
 */
export function watchPrefix (client: ClusterClient, prefix: string, listener: (change: Change) => void): { stop: () => void } {
  let stopped = false
  let stream: DuplexStream<WatchRequest, WatchReply> | undefined
  let timer: NodeJS.Timeout | undefined
  let turn = 0

  async function open (): Promise<void> {
    // A learner refuses watches, a hung host never confirms one: each try goes to the next endpoint from the preferred one on.
    const start = client.endpoints.indexOf(client.preferred())
    const endpoint = client.endpoints[(start + turn) % client.endpoints.length] ?? client.preferred()
    const opened = await endpoint.stream<WatchRequest, WatchReply>('Watch', 'Watch')
    if (!opened.ok) { again(); return }
    const mine = opened.value
    stream = mine
    let confirmed = false
    let over = false
    const broken = (): void => {
      if (over) return
      over = true
      clearTimeout(confirmation)
      mine.cancel()
      if (confirmed && !isStopped()) listener({ kind: 'lost' })
      turn = confirmed ? 0 : turn + 1
      again()
    }
    const confirmation = setTimeout(broken, CONFIRM_WITHIN_MS)
    mine.on('error', broken)
    mine.on('end', broken)
    mine.on('data', reply => {
      if (isStopped() || over) return
      if (reply.canceled) { broken(); return }
      if (reply.created) {
        confirmed = true
        clearTimeout(confirmation)
        listener({ kind: 'resync' })
      }
      if (reply.events.length > 0) {
        listener({ kind: 'keys', keys: [...new Set(reply.events.map(event => event.kv.key.toString().slice(prefix.length)))] })
      }
    })
    if (isStopped()) { broken(); return }
    mine.write({ create_request: { key: Buffer.from(prefix), range_end: prefixEnd(prefix), progress_notify: false } })
  }

  function isStopped (): boolean { return stopped }

  function again (): void {
    if (isStopped()) return
    clearTimeout(timer)
    timer = setTimeout(() => void open(), REOPEN_AFTER_MS)
  }

  void open()
  return {
    stop () {
      stopped = true
      clearTimeout(timer)
      stream?.cancel()
    }
  }
}
